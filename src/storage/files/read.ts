import { constants, type BigIntStats } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { asFault, FileFault } from './fault.ts';
import { handlePath, kindOf, kindPhrases, openPath, splitPath, withFolder, withHandle } from './walk.ts';

const CHUNK_BYTES = 256 * 1024;

export interface FileInfo {
  sizeBytes: number;
  modifiedAtMs: number;
  /** Changes with every change: inode, size, mtime, and ctime, which only the kernel sets. */
  version: string;
}

export interface OpenFile extends FileInfo {
  /** Bytes from `start` to `end`, exclusive. Throws when the file was truncated. */
  bytes(start: number, end: number): AsyncGenerator<Uint8Array, void>;
}

export function fileInfo(stat: BigIntStats): FileInfo {
  return {
    sizeBytes: Number(stat.size),
    modifiedAtMs: Number(stat.mtimeNs / 1_000_000n),
    version: [stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].map((field) => field.toString(36)).join('-'),
  };
}

export async function withFile<T>(root: string, path: string, use: (file: OpenFile) => Promise<T>): Promise<T> {
  const { parent, name } = splitPath(path);
  const file = await withFolder(root, parent, (folder) => openFile(folder, name, path));
  return withHandle(file, async () => use({ ...fileInfo(await file.stat({ bigint: true })), bytes: readChunks(file) }));
}

async function openFile(folder: FileHandle, name: string, path: string): Promise<FileHandle> {
  const target = await openPath(folder, name);
  if (target === null) throw new FileFault('notFound', `"${path}" does not exist`);
  return withHandle(target, async () => {
    const kind = kindOf(await target.stat());
    if (kind !== 'file') throw new FileFault('wrongKind', `"${path}" is ${kindPhrases[kind]}, not a file`);
    // Reopens the inspected file, whatever its name refers to now.
    return open(handlePath(target), constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
      throw asFault(error, path);
    });
  });
}

const readChunks = (file: FileHandle): OpenFile['bytes'] =>
  async function* (start, end) {
    for (let at = start; at < end;) {
      const chunk = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, end - at));
      const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
      if (bytesRead === 0) throw new Error('the file became shorter while it was read');
      at += bytesRead;
      yield chunk.subarray(0, bytesRead);
    }
  };
