/**
 * Files of a volume without an instance. The disk is held and mounted while something is done in it, never longer: a delete of the
 * volume cuts off what is under way. None of it is a wish, and none has an operation: it is done when it is answered.
 */
import { BYTES_PER_GB } from '../../domain/disk.ts';
import { Refusal, volumeNotFound } from '../../domain/refusal.ts';
import type { Volume } from '../../domain/volume.ts';
import { StorageFault } from '../../storage/contract.ts';
import {
  FileFault,
  listFolder,
  makeFolder,
  remove,
  withFile,
  writeFile,
  type FolderPage,
} from '../../storage/files.ts';
import type { DiskUses } from './disk-uses.ts';
import type { MountVolume } from './mount-volume.ts';
import { makeConcurrencyLimit } from '../base/concurrency-limit.ts';
import type { Caller } from '../base/caller.ts';

interface FileState {
  sizeBytes: number;
  modifiedAtMs: number;
  /** Another after each change of the file. */
  version: string;
}

export interface ReadableFile extends FileState {
  /** From the byte `start` up to `end`, which is not in it. Throws when the file became shorter than that. */
  bytes(start: number, end: number): AsyncGenerator<Uint8Array, void>;
}

export interface FileUpload {
  /** Asked once for what is to be written; ends when the signal aborts. */
  source(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Null when it is not told before. */
  sizeBytes: number | null;
  /** Refuses to take the place of a file that is there. */
  onlyNew: boolean;
}

/** A place in a volume: `path` is relative to it, names with one slash between them; '' is the volume's own folder. */
export interface FilePlace {
  id: string;
  path: string;
}

/** Files of the caller's volumes, without an instance. Throws `too_many_requests` when too many of these are under way. */
export interface Files {
  /** By name, in the order of bytes, from where `after` (a `next` of before) says. */
  list(caller: Caller, asked: FilePlace & { limit: number; after: string | null }): Promise<FolderPage>;
  /** With those above it that are missing; one that is there stays as it is. */
  makeFolder(caller: Caller, place: FilePlace): Promise<void>;
  /** Lends the file; the signal aborts when the volume is deleted or the server stops. */
  read<T>(caller: Caller, place: FilePlace, use: (file: ReadableFile, signal: AbortSignal) => Promise<T>): Promise<T>;
  /** All of it or nothing: the file before stays until the last byte is on disk. */
  write(caller: Caller, place: FilePlace, upload: FileUpload): Promise<FileState & { created: boolean }>;
  /** A folder that is not empty only when `recursive`. A link is deleted itself. */
  delete(caller: Caller, place: FilePlace & { recursive: boolean }): Promise<void>;
}

/** Transfers and looks at once, of one account and of all: each holds a file and some pieces of it in memory. */
const MOST_OF_ACCOUNT = 8;
const MOST_OF_ALL = 64;
const ASK_AGAIN_S = 2;

export interface FileDeps {
  /** The caller's volume, as it is now. */
  findVolume: (accountId: string, id: string) => Promise<Volume | null>;
  /** The folder of its files, mounted. */
  mountVolume: MountVolume;
  uses: DiskUses;
}

export function makeFiles({ findVolume, mountVolume, uses }: FileDeps): Files {
  const words = 'requests for files are under way; send this one again when one of them has ended';
  const limit = makeConcurrencyLimit({
    perAccount: MOST_OF_ACCOUNT,
    total: MOST_OF_ALL,
    retryAfterS: ASK_AGAIN_S,
    full: { mine: (count) => `${count} of your ${words}`, all: (count) => `${count} ${words}` },
  });

  async function bound(accountId: string, id: string): Promise<Volume> {
    const volume = await findVolume(accountId, id);
    if (volume === null) throw volumeNotFound(id);
    const why = whyNoFiles(volume);
    if (why !== null) throw why;
    return volume;
  }

  /** Does it in the volume's mounted folder, and lets go of it whatever comes. */
  async function inVolume<T>(
    caller: Caller,
    id: string,
    deed: (root: string, signal: AbortSignal, volume: Volume) => Promise<T>,
  ): Promise<T> {
    const leave = limit.acquire(caller.accountId);
    try {
      // Whose it is comes before the hold: nobody keeps another's disk mounted.
      const { id: volumeId } = await bound(caller.accountId, id);
      const { signal, release } = uses.acquire({ kind: 'volume', id: volumeId });
      try {
        const volume = await bound(caller.accountId, id);
        signal.throwIfAborted();
        return await deed(await mountVolume(volume, signal), signal, volume);
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
    list: (caller, { id, path, limit, after }) =>
      inVolume(caller, id, (root, signal) => listFolder(root, path, { limit, after }, signal)),
    makeFolder: (caller, { id, path }) => inVolume(caller, id, (root) => makeFolder(root, path)),
    read: (caller, { id, path }, use) =>
      inVolume(caller, id, (root, signal) => withFile(root, path, (file) => use(file, signal))),
    write: (caller, { id, path }, upload) =>
      inVolume(caller, id, (root, signal, { sizeGB }) =>
        writeFile(root, path, { ...upload, source: upload.source(signal), maxBytes: sizeGB * BYTES_PER_GB }, signal),
      ),
    delete: (caller, { id, path, recursive }) =>
      inVolume(caller, id, async (root, signal) => {
        await remove(root, path, { recursive }, signal);
      }),
  };
}

function whyNoFiles({ id, status }: Volume): Refusal | null {
  switch (status) {
    case 'Bound':
      return null;
    case 'Pending':
      return new Refusal('not_now', `volume ${id} is still being made; send it again idempotent it is Bound`, {
        retryAfterS: ASK_AGAIN_S,
      });
    case 'Terminating':
      return new Refusal('not_now', `volume ${id} is being deleted, and its files with it; use another volume`);
    case 'Lost':
      return new Refusal(
        'not_now',
        `what held volume ${id} is gone from its host; its files are back when the operator has brought that back`,
      );
    case 'Failed':
      return new Refusal('not_now', `volume ${id} could not be made, and has no files; delete it, and make another`);
    default:
      return status satisfies never;
  }
}

function refusalOf(error: unknown): unknown {
  if (error instanceof StorageFault)
    return new Refusal('unavailable', 'the volume can not be opened now; send it again in a moment', {
      retryAfterS: ASK_AGAIN_S,
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
      return new Refusal('in_use', `${error.message}; add "?recursive=true" to delete all that is in it`);
    case 'full':
      return new Refusal('volume_full', `${error.message}; delete files, or use a larger volume`);
    default:
      return error.kind satisfies never;
  }
}
