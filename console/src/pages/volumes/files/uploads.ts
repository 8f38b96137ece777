/**
 * Queue of uploads of this tab, which goes on while the person is on other pages. A file goes only
 * onto a free name (`If-None-Match`): on a taken one (412) the person is asked. Few are sent at a
 * time: an account may have eight transfers.
 */
import { ApiError } from '../../../../../src/contract/client.ts';
import { lastNameOf } from './paths.ts';

export type UploadState = 'waiting' | 'sending' | 'asks' | 'done' | 'failed' | 'cancelled';

export interface Upload {
  key: number;
  volumeId: string;
  path: string;
  name: string;
  sizeBytes: number;
  sentBytes: number;
  state: UploadState;
  error: unknown;
}

export interface SendOptions {
  isReplacing: boolean;
  signal: AbortSignal;
  onProgress: (sentBytes: number) => void;
}

export interface UploadFile {
  path: string;
  file: Blob;
}

interface UploadsDeps {
  send: (volumeId: string, path: string, file: Blob, options: SendOptions) => Promise<void>;
  /** After each file that is there. */
  onDone: (volumeId: string) => void;
}

const MOST_AT_ONCE = 3;
const BYTES_OF_A_STEP = 0.005;

interface Entry {
  upload: Upload;
  file: Blob;
  abort: AbortController;
  isReplacing: boolean;
}

export interface Uploads {
  add(volumeId: string, files: readonly UploadFile[]): void;
  cancel(key: number): void;
  cancelAll(): void;
  /** Answers the question about a taken name. */
  replace(keys: readonly number[]): void;
  retry(key: number): void;
  /** Forgets what has ended. */
  clear(): void;
  list(): readonly Upload[];
  subscribe(watcher: () => void): () => void;
}

export const isOver = ({ state }: Upload): boolean => state === 'done' || state === 'failed' || state === 'cancelled';

export function makeUploads({ send, onDone }: UploadsDeps): Uploads {
  const entries = new Map<number, Entry>();
  const watchers = new Set<() => void>();
  let shown: readonly Upload[] = [];
  let nextKey = 1;

  const show = (): void => {
    shown = [...entries.values()].map(({ upload }) => upload);
    for (const watcher of watchers) watcher();
  };
  const set = (entry: Entry, over: Partial<Upload>): void => {
    entry.upload = { ...entry.upload, ...over };
    show();
  };

  async function transfer(entry: Entry): Promise<void> {
    const { volumeId, path, sizeBytes } = entry.upload;
    set(entry, { state: 'sending', sentBytes: 0, error: null });
    try {
      await send(volumeId, path, entry.file, {
        isReplacing: entry.isReplacing,
        signal: entry.abort.signal,
        onProgress(sentBytes) {
          // A page of a thousand rows is not drawn for each packet.
          if (sentBytes - entry.upload.sentBytes >= sizeBytes * BYTES_OF_A_STEP) set(entry, { sentBytes });
        },
      });
      set(entry, { state: 'done', sentBytes: sizeBytes });
      onDone(volumeId);
    } catch (error) {
      if (entry.abort.signal.aborted) set(entry, { state: 'cancelled' });
      else if (error instanceof ApiError && error.code === 'precondition_failed') set(entry, { state: 'asks' });
      else set(entry, { state: 'failed', error });
    }
    advance();
  }

  function advance(): void {
    const all = [...entries.values()];
    let free = MOST_AT_ONCE - all.filter(({ upload }) => upload.state === 'sending').length;
    for (const entry of all) {
      if (free <= 0) return;
      if (entry.upload.state !== 'waiting') continue;
      free -= 1;
      void transfer(entry);
    }
  }

  const again = (entry: Entry, isReplacing: boolean): void => {
    entry.isReplacing = isReplacing;
    entry.abort = new AbortController();
    set(entry, { state: 'waiting', sentBytes: 0, error: null });
  };
  const cancel = (entry: Entry): void => {
    if (isOver(entry.upload)) return;
    const wasSending = entry.upload.state === 'sending';
    entry.abort.abort();
    if (!wasSending) set(entry, { state: 'cancelled' });
  };

  return {
    add(volumeId, files) {
      for (const { path, file } of files) {
        const key = nextKey++;
        const upload: Upload = {
          key,
          volumeId,
          path,
          name: lastNameOf(path),
          sizeBytes: file.size,
          sentBytes: 0,
          state: 'waiting',
          error: null,
        };
        entries.set(key, { upload, file, abort: new AbortController(), isReplacing: false });
      }
      show();
      advance();
    },
    cancel(key) {
      const entry = entries.get(key);
      if (entry) cancel(entry);
    },
    cancelAll() {
      for (const entry of entries.values()) cancel(entry);
    },
    replace(keys) {
      for (const key of keys) {
        const entry = entries.get(key);
        if (entry?.upload.state === 'asks') again(entry, true);
      }
      advance();
    },
    retry(key) {
      const entry = entries.get(key);
      if (entry?.upload.state === 'failed' || entry?.upload.state === 'cancelled') again(entry, entry.isReplacing);
      advance();
    },
    clear() {
      for (const [key, { upload }] of entries) if (isOver(upload)) entries.delete(key);
      show();
    },
    list: () => shown,
    subscribe(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}
