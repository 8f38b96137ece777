/** A file's bytes, from one place to another, of the very file that was looked at. */
import { constants, type BigIntStats } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { asFault, FileFault } from './fault.ts';
import { itself, kindOf, kindWords, lookAt, splitPath, withFolder, withHandle } from './walk.ts';

const PIECE_BYTES = 256 * 1024;

export interface FileFacts {
  sizeBytes: number;
  modifiedAtMs: number;
  /** Another after each change: of the file's number, size, and times, of which only the kernel sets the second. */
  version: string;
}

export interface OpenFile extends FileFacts {
  /** From the byte `start` up to `end`, which is not in it. Throws when the file became shorter than that. */
  bytes(start: number, end: number): AsyncGenerator<Uint8Array, void>;
}

export function factsOf(stat: BigIntStats): FileFacts {
  return {
    sizeBytes: Number(stat.size),
    modifiedAtMs: Number(stat.mtimeNs / 1_000_000n),
    version: [stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].map((one) => one.toString(36)).join('-'),
  };
}

/** Lends the file, open. */
export async function withFile<T>(root: string, path: string, use: (file: OpenFile) => Promise<T>): Promise<T> {
  const { above, name } = splitPath(path);
  const file = await withFolder(root, above, (folder) => openFile(folder, name, path));
  return withHandle(file, async () => use({ ...factsOf(await file.stat({ bigint: true })), bytes: piecesOf(file) }));
}

async function openFile(folder: FileHandle, name: string, path: string): Promise<FileHandle> {
  const found = await lookAt(folder, name);
  if (found === null) throw new FileFault('notFound', `"${path}" does not exist`);
  return withHandle(found, async () => {
    const kind = kindOf(await found.stat());
    if (kind !== 'file') throw new FileFault('wrongKind', `"${path}" is ${kindWords[kind]}, not a file`);
    // The same file again, whatever has its name by now.
    return open(itself(found), constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
      throw asFault(error, path);
    });
  });
}

const piecesOf = (file: FileHandle): OpenFile['bytes'] =>
  async function* (start, end) {
    for (let at = start; at < end;) {
      const piece = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, end - at));
      const { bytesRead } = await file.read(piece, 0, piece.length, at);
      if (bytesRead === 0) throw new Error('the file became shorter while it was read');
      at += bytesRead;
      yield piece.subarray(0, bytesRead);
    }
  };
