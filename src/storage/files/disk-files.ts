import type { FolderPage, PageRequest } from './list.ts';
import type { OpenFile } from './read.ts';
import type { Upload, WriteResult } from './write.ts';

/**
 * Access to a disk's files without an instance. `path` is relative to the disk, '' is its root.
 * Owners write there at the same time, so no link is followed, and only files and folders are
 * opened. Each `FileFault` is the caller's mistake or a full disk.
 */
export interface DiskFiles {
  /** Sorted by name, bytewise. */
  list(path: string, page: PageRequest, signal: AbortSignal): Promise<FolderPage>;
  /** Creates missing parents too; keeps an existing folder. */
  makeFolder(path: string, signal: AbortSignal): Promise<void>;
  read<T>(path: string, use: (file: OpenFile) => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Atomic: the previous file stays until the last byte is on disk. */
  write(path: string, upload: Upload, signal: AbortSignal): Promise<WriteResult>;
  /** Deletes a link, pipe or device itself; a folder with content only if `recursive`. */
  remove(path: string, options: { recursive: boolean }, signal: AbortSignal): Promise<void>;
}
