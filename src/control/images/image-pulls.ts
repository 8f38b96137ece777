/**
 * Images made present on engines: pulls and builds of one image on one engine are done once, whoever waits for them, and their
 * progress is there for every list to show. Work goes on while anybody waits, and stops when the last one left. An image of an
 * account's own is shared within that account alone: whether the registry gives it out is another question for each.
 */
import type { Engine, ImageProgress, RegistryCredentials } from '../../engines/contract.ts';
import { raceAbort } from '../../async/abort.ts';

/** An image, and as whom it is had. */
export interface ImageRequest {
  ref: string;
  /** The account whose own it is: its registry is asked even when the image is on the engine already. */
  ownerId?: string;
  credentials?: RegistryCredentials | undefined;
}

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

export interface ImagePulls {
  /** As `Engine.ensureImage`, shared. Rejects with the signal's reason when the caller gives up; the work goes on for the others. */
  ensure(
    engine: Engine,
    image: ImageRequest,
    onProgress: (progress: ImageProgress) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** What is known of an image, without asking an engine. */
  stateOf(image: ImageRequest): ImageState;
}

/** No ref and no id has a space. */
const keyOf = ({ ref, ownerId = '' }: ImageRequest): string => `${ref} ${ownerId}`;

/** More than a region's engine holds; what is forgotten reads as absent until it is wanted again. */
const MOST_KNOWN = 10_000;

export function makeImagePulls(): ImagePulls {
  const works = new Map<Engine, Map<string, Work>>();
  const known = new Map<string, ImageState>();

  const learn = (key: string, state: ImageState): void => {
    known.delete(key);
    known.set(key, state);
    const [oldest] = known.keys();
    if (known.size > MOST_KNOWN && oldest !== undefined) known.delete(oldest);
  };

  const begin = (engine: Engine, image: ImageRequest): Work => {
    const key = keyOf(image);
    const abort = new AbortController();
    const work: Work = { done: Promise.resolve(), progress: null, listeners: new Set(), waiting: 0, abort };
    const onProgress = (progress: ImageProgress) => {
      work.progress = progress;
      const progressPercent = progress.total > 0 ? Math.min(99, Math.floor((progress.done / progress.total) * 100)) : 0;
      learn(key, { state: 'Preparing', stateText: progress.text, progressPercent });
      for (const listener of work.listeners) listener(progress);
    };
    const more = { askRegistry: image.ownerId !== undefined };
    work.done = engine.ensureImage(image.ref, onProgress, abort.signal, image.credentials, more).then(
      () => learn(key, { state: 'Ready', stateText: '', progressPercent: 0 }),
      (error: unknown) => {
        const stateText = error instanceof Error ? error.message : String(error);
        learn(key, abort.signal.aborted ? absent : { state: 'Failed', stateText, progressPercent: 0 });
        throw error;
      },
    );
    const ofEngine = works.get(engine) ?? new Map<string, Work>();
    works.set(engine, ofEngine.set(key, work));
    const forget = () => {
      if (ofEngine.get(key) === work) ofEngine.delete(key);
    };
    work.done.then(forget, forget);
    return work;
  };

  return {
    async ensure(engine, image, onProgress, signal) {
      signal.throwIfAborted();
      const key = keyOf(image);
      const work = works.get(engine)?.get(key) ?? begin(engine, image);
      work.waiting += 1;
      work.listeners.add(onProgress);
      if (work.progress) onProgress(work.progress);
      try {
        await raceAbort(work.done, signal);
      } finally {
        work.listeners.delete(onProgress);
        work.waiting -= 1;
        if (work.waiting === 0) {
          // Nobody waits: a later caller must begin anew instead of joining work that is being ended.
          const ofEngine = works.get(engine);
          if (ofEngine?.get(key) === work) ofEngine.delete(key);
          work.abort.abort();
        }
      }
    },
    stateOf: (image) => known.get(keyOf(image)) ?? absent,
  };
}

const absent: ImageState = { state: 'Absent', stateText: '', progressPercent: 0 };
