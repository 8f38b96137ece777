/**
 * Images made present on engines: pulls and builds of one image on one engine are done once, whoever waits for them, and their
 * progress is there for every list to show. Work goes on while anybody waits, and stops when the last one left.
 */
import type { Engine, ImageProgress } from '../engines/contract.ts';

export type ImageState =
  | { state: 'Ready' | 'Absent'; stateText: ''; progressPercent: 0 }
  | { state: 'Preparing'; stateText: string; progressPercent: number }
  | { state: 'Failed'; stateText: string; progressPercent: 0 };

interface Work {
  done: Promise<void>;
  progress: ImageProgress | null;
  listeners: Set<(progress: ImageProgress) => void>;
  waiting: number;
  abort: AbortController;
}

export interface ImageWork {
  /** As `Engine.ensureImage`, shared. Rejects with the signal's reason when the caller gives up; the work goes on for the others. */
  ensure(
    engine: Engine,
    ref: string,
    onProgress: (progress: ImageProgress) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** What is known of an image, without asking an engine. */
  stateOf(ref: string): ImageState;
}

export function makeImageWork(): ImageWork {
  const works = new Map<Engine, Map<string, Work>>();
  const known = new Map<string, ImageState>();

  const begin = (engine: Engine, ref: string): Work => {
    const abort = new AbortController();
    const work: Work = { done: Promise.resolve(), progress: null, listeners: new Set(), waiting: 0, abort };
    const onProgress = (progress: ImageProgress) => {
      work.progress = progress;
      const progressPercent = progress.total > 0 ? Math.min(99, Math.floor((progress.done / progress.total) * 100)) : 0;
      known.set(ref, { state: 'Preparing', stateText: progress.text, progressPercent });
      for (const listener of work.listeners) listener(progress);
    };
    work.done = engine.ensureImage(ref, onProgress, abort.signal).then(
      () => void known.set(ref, { state: 'Ready', stateText: '', progressPercent: 0 }),
      (error: unknown) => {
        const stateText = error instanceof Error ? error.message : String(error);
        known.set(ref, abort.signal.aborted ? absent : { state: 'Failed', stateText, progressPercent: 0 });
        throw error;
      },
    );
    const ofEngine = works.get(engine) ?? new Map<string, Work>();
    works.set(engine, ofEngine.set(ref, work));
    const forget = () => {
      if (ofEngine.get(ref) === work) ofEngine.delete(ref);
    };
    work.done.then(forget, forget);
    return work;
  };

  return {
    async ensure(engine, ref, onProgress, signal) {
      signal.throwIfAborted();
      const work = works.get(engine)?.get(ref) ?? begin(engine, ref);
      work.waiting += 1;
      work.listeners.add(onProgress);
      if (work.progress) onProgress(work.progress);
      let stopWaiting = () => {};
      const left = new Promise<never>((_, reject) => {
        stopWaiting = () => reject(signal.reason);
        signal.addEventListener('abort', stopWaiting, { once: true });
      });
      try {
        await Promise.race([work.done, left]);
      } finally {
        signal.removeEventListener('abort', stopWaiting);
        work.listeners.delete(onProgress);
        work.waiting -= 1;
        if (work.waiting === 0) {
          // Nobody waits: a later caller must begin anew instead of joining work that is being ended.
          const ofEngine = works.get(engine);
          if (ofEngine?.get(ref) === work) ofEngine.delete(ref);
          work.abort.abort();
        }
      }
    },
    stateOf: (ref) => known.get(ref) ?? absent,
  };
}

const absent: ImageState = { state: 'Absent', stateText: '', progressPercent: 0 };
