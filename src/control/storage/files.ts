/** Reads and writes files of a volume without an instance. Deleting the volume aborts a request. */
import { BYTES_PER_GB } from '../../domain/storage/disk.ts';
import { Refusal, volumeNotFound } from '../../domain/kernel/refusal.ts';
import type { Volume } from '../../domain/storage/volume.ts';
import { StorageFault } from '../../storage/contract.ts';
import { FileFault, type DiskFiles, type FolderPage } from '../../storage/files.ts';
import type { DiskHolders } from './disk-holders.ts';
import type { OpenFiles } from './mounts.ts';
import { makeConcurrencyLimit, type Caller } from '../kernel/ports.ts';

interface FileState {
  sizeBytes: number;
  modifiedAtMs: number;
  /** Changes with every write. */
  version: string;
}

export interface ReadableFile extends FileState {
  /** Yields bytes from `start` to `end`, exclusive. Throws if the file became shorter. */
  bytes(start: number, end: number): AsyncGenerator<Uint8Array, void>;
}

export interface FileUpload {
  /** Called once. Ends when the signal aborts. */
  source(signal: AbortSignal): AsyncIterable<Uint8Array>;
  sizeBytes: number | null;
  onlyNew: boolean;
}

/** `path` is relative to the volume, with single slashes; '' is its root folder. */
export interface VolumePath {
  id: string;
  path: string;
}

type Entry = FolderPage['entries'][number];

export interface ListedFolder {
  files: (Omit<Entry, 'modifiedAtMs'> & { modifiedAtUnixMs: number })[];
  next: FolderPage['next'];
}

/** Every method throws `too_many_requests` above the concurrency limit. */
export interface Files {
  /** Sorted by name, bytewise. `after` is the `next` of the previous page. */
  list(caller: Caller, asked: VolumePath & { limit: number; after?: string | undefined }): Promise<ListedFolder>;
  /** Creates missing parents; keeps an existing folder. */
  makeFolder(caller: Caller, file: VolumePath): Promise<void>;
  /** The signal aborts when the volume is deleted or the server stops. */
  read<T>(caller: Caller, file: VolumePath, use: (file: ReadableFile, signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Atomic: the previous file stays until the last byte is on disk. */
  write(caller: Caller, file: VolumePath, upload: FileUpload): Promise<FileState & { created: boolean }>;
  /** Deletes a non-empty folder only if `recursive`. Does not follow links. */
  delete(caller: Caller, file: VolumePath & { recursive: boolean }): Promise<void>;
}

/** Concurrent requests: each keeps a file open and some chunks of it in memory. */
const MAX_PER_ACCOUNT = 8;
const MAX_TOTAL = 64;
const RETRY_AFTER_S = 2;

export interface FileDeps {
  findVolume: (accountId: string, id: string) => Promise<Volume | null>;
  openFiles: OpenFiles;
  uses: DiskHolders;
}

export function makeFiles({ findVolume, openFiles, uses }: FileDeps): Files {
  const message = 'file requests are running, the limit; try again when one has ended';
  const limiter = makeConcurrencyLimit({
    perAccount: MAX_PER_ACCOUNT,
    total: MAX_TOTAL,
    share: 1,
    retryAfterS: RETRY_AFTER_S,
    full: { mine: (count) => `${count} of your ${message}`, all: (count) => `${count} ${message}` },
  });

  async function findBound(accountId: string, id: string): Promise<Volume> {
    const volume = await findVolume(accountId, id);
    if (volume === null) throw volumeNotFound(id);
    const refusal = refusalOfStatus(volume);
    if (refusal !== null) throw refusal;
    return volume;
  }

  async function inVolume<T>(
    caller: Caller,
    id: string,
    operation: (files: DiskFiles, signal: AbortSignal, volume: Volume) => Promise<T>,
  ): Promise<T> {
    const leave = limiter.acquire(caller.accountId);
    try {
      // Check the owner first: nobody may keep another account's disk mounted.
      const { id: volumeId } = await findBound(caller.accountId, id);
      const { signal, release } = uses.acquire({ kind: 'volume', id: volumeId });
      try {
        const volume = await findBound(caller.accountId, id);
        signal.throwIfAborted();
        return await operation(await openFiles(volume, signal), signal, volume);
      } catch (error) {
        throw signal.aborted ? signal.reason : refusalOf(error);
      } finally {
        release();
      }
    } finally {
      leave();
    }
  }

  return {
    async list(caller, { id, path, limit, after = null }) {
      const page = await inVolume(caller, id, (files, signal) => files.list(path, { limit, after }, signal));
      const files = page.entries.map(({ modifiedAtMs, ...entry }) => ({ ...entry, modifiedAtUnixMs: modifiedAtMs }));
      return { files, next: page.next };
    },
    makeFolder: (caller, { id, path }) => inVolume(caller, id, (files, signal) => files.makeFolder(path, signal)),
    read: (caller, { id, path }, use) =>
      inVolume(caller, id, (files, signal) => files.read(path, (file) => use(file, signal), signal)),
    write: (caller, { id, path }, upload) =>
      inVolume(caller, id, (files, signal, { sizeGB }) =>
        files.write(path, { ...upload, source: upload.source(signal), maxBytes: sizeGB * BYTES_PER_GB }, signal),
      ),
    delete: (caller, { id, path, recursive }) =>
      inVolume(caller, id, (files, signal) => files.remove(path, { recursive }, signal)),
  };
}

function refusalOfStatus({ id, status }: Volume): Refusal | null {
  switch (status) {
    case 'Bound':
      return null;
    case 'Pending':
      return new Refusal('not_now', `volume ${id} is still being created; try again when it is Bound`, {
        retryAfterS: RETRY_AFTER_S,
      });
    case 'Terminating':
      return new Refusal('not_now', `volume ${id} is being deleted, and its files with it; use another volume`);
    case 'Lost':
      return new Refusal(
        'not_now',
        `the disk of volume ${id} is gone from its host; the files are back when the operator has restored the disk`,
      );
    case 'Failed':
      return new Refusal(
        'not_now',
        `volume ${id} could not be created, and has no files; delete it, and create another`,
      );
    default:
      return status satisfies never;
  }
}

function refusalOf(error: unknown): unknown {
  if (error instanceof StorageFault)
    return new Refusal('unavailable', 'the volume cannot be opened now; try again in a moment', {
      retryAfterS: RETRY_AFTER_S,
      detail: error,
    });
  if (!(error instanceof FileFault)) return error;
  switch (error.kind) {
    case 'badPath':
      return new Refusal('field_value', error.message);
    case 'notFound':
      return new Refusal('not_found', error.message);
    case 'wrongKind':
      return new Refusal('not_now', error.message);
    case 'exists':
      return new Refusal('precondition_failed', error.message);
    case 'notEmpty':
      return new Refusal('in_use', `${error.message}; add "?recursive=true" to delete its contents, too`);
    case 'full':
      return new Refusal('volume_full', `${error.message}; delete files, or use a larger volume`);
    default:
      return error.kind satisfies never;
  }
}
