/**
 * Shares one pull or build of an image among concurrent callers, until the last of them leaves.
 * Accounts never share pulls of own images: the registry authorizes each account separately.
 */
import type { Engine, ImageProgress } from '../../../engines/contract.ts';
import { raceAbort } from '../../../async/abort.ts';
import { makeBoundedMap, type BoundedMap } from '../../../async/bounded-map.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import { ensureNewest, type EnsuredImage, type ImageRequest, type NewestImageDeps } from './newest-image.ts';

export interface ImagePullDeps extends NewestImageDeps {
  onEnsured: (engine: Engine, image: ImageRequest, ensured: EnsuredImage) => Promise<void>;
}

export type ImageState =
  | { state: 'Absent'; stateText: ''; progressPercent: 0 }
  | { state: 'Ready'; stateText: string; progressPercent: 0 }
  | { state: 'Preparing'; stateText: string; progressPercent: number }
  | { state: 'Failed'; stateText: string; progressPercent: 0 };

interface Pull {
  done: Promise<EnsuredImage>;
  progress: ImageProgress | null;
  listeners: Set<(progress: ImageProgress) => void>;
  waiting: number;
  abort: AbortController;
}

export interface ImagePulls {
  /** Rejects with the signal's reason; the pull continues for other callers. */
  ensure(
    engine: Engine,
    image: ImageRequest,
    onProgress: (progress: ImageProgress) => void,
    signal: AbortSignal,
  ): Promise<EnsuredImage>;
  /** Returns the last known state on the engine; never asks it. */
  stateOf(engine: Engine, image: ImageRequest): ImageState;
}

/** No ref and no id has a space. */
const keyOf = ({ ref, ownerId = '' }: ImageRequest): string => `${ref} ${ownerId}`;
const pullKeyOf = (image: ImageRequest): string => `${keyOf(image)} ${image.follows ?? ''}`;

/** Bounds the states of an engine. Evicted states read as Absent until the next pull. */
const MAX_STATES = 10_000;

interface EngineImages {
  pulls: Map<string, Pull>;
  states: BoundedMap<ImageState>;
}

export function makeImagePulls(deps: ImagePullDeps): ImagePulls {
  const byEngine = new WeakMap<Engine, EngineImages>();
  const imagesOf = (engine: Engine): EngineImages => {
    const present = byEngine.get(engine);
    if (present !== undefined) return present;
    const images = { pulls: new Map<string, Pull>(), states: makeBoundedMap<ImageState>({ maxEntries: MAX_STATES }) };
    byEngine.set(engine, images);
    return images;
  };

  const start = (engine: Engine, image: ImageRequest): Pull => {
    const [key, pullKey] = [keyOf(image), pullKeyOf(image)];
    const { pulls, states } = imagesOf(engine);
    const abort = new AbortController();
    const begun: Omit<Pull, 'done'> = { progress: null, listeners: new Set(), waiting: 0, abort };
    const onProgress = (progress: ImageProgress) => {
      begun.progress = progress;
      const progressPercent = progress.total > 0 ? Math.min(99, Math.floor((progress.done / progress.total) * 100)) : 0;
      states.set(key, { state: 'Preparing', stateText: progress.text, progressPercent });
      for (const listener of begun.listeners) listener(progress);
    };
    const ensure = async (): Promise<EnsuredImage> => {
      try {
        const ensured = await ensureNewest(deps, engine, image, onProgress, abort.signal);
        await deps.onEnsured(engine, image, ensured);
        states.set(key, { state: 'Ready', stateText: ensured.note, progressPercent: 0 });
        return ensured;
      } catch (error) {
        const stateText = errorText(error);
        states.set(key, abort.signal.aborted ? absent : { state: 'Failed', stateText, progressPercent: 0 });
        throw error;
      }
    };
    const pull: Pull = Object.assign(begun, { done: ensure() });
    pulls.set(pullKey, pull);
    const forget = () => {
      if (pulls.get(pullKey) === pull) pulls.delete(pullKey);
    };
    pull.done.then(forget, forget);
    return pull;
  };

  return {
    async ensure(engine, image, onProgress, signal) {
      signal.throwIfAborted();
      const key = pullKeyOf(image);
      const { pulls } = imagesOf(engine);
      const pull = pulls.get(key) ?? start(engine, image);
      pull.waiting += 1;
      pull.listeners.add(onProgress);
      if (pull.progress) onProgress(pull.progress);
      try {
        return await raceAbort(pull.done, signal);
      } finally {
        pull.listeners.delete(onProgress);
        pull.waiting -= 1;
        if (pull.waiting === 0) {
          // Forget the pull before aborting it: a later caller must start a new one.
          if (pulls.get(key) === pull) pulls.delete(key);
          pull.abort.abort();
        }
      }
    },
    stateOf: (engine, image) => byEngine.get(engine)?.states.peek(keyOf(image)) ?? absent,
  };
}

const absent: ImageState = { state: 'Absent', stateText: '', progressPercent: 0 };
