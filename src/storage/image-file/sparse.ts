import { open, stat } from 'node:fs/promises';
import { run } from '../layout.ts';

export interface SparseContent {
  sizeBytes: number;
  pieces: [start: number, length: number][];
  bytes: Buffer;
}

/** Allocates every block of the image. Idempotent; safe while mounted. Throws without space. */
export async function allocateImage(image: string): Promise<void> {
  const { size } = await stat(image);
  await run('fallocate', ['--length', String(size), image]);
}

const STEP_BYTES = 64 * 1024;
const ZEROS = Buffer.alloc(STEP_BYTES);

/** Treats written zeros as holes. */
export async function readSparse(path: string): Promise<SparseContent> {
  const { size: sizeBytes } = await stat(path);
  const pieces: SparseContent['pieces'] = [];
  const bytes: Buffer[] = [];
  const file = await open(path);
  try {
    for (const { start, end } of await listExtents(path, sizeBytes)) {
      for (let at = start; at < end; at += STEP_BYTES) {
        const length = Math.min(STEP_BYTES, end - at);
        const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at);
        if (bytesRead < length) throw new Error(`${path} became shorter while it was read`);
        if (buffer.equals(ZEROS.subarray(0, length))) continue;
        bytes.push(buffer);
        const previous = pieces.at(-1);
        if (previous !== undefined && previous[0] + previous[1] === at) previous[1] += length;
        else pieces.push([at, length]);
      }
    }
  } finally {
    await file.close();
  }
  return { sizeBytes, pieces, bytes: Buffer.concat(bytes) };
}

async function listExtents(path: string, sizeBytes: number): Promise<{ start: number; end: number }[]> {
  const { stdout } = await run('xfs_io', ['-r', '-c', 'seek -a -r 0', path]);
  const edges = [...stdout.matchAll(/^(DATA|HOLE)\s+(\d+)$/gm)].map(([, kind, at]) => ({ kind, at: Number(at) }));
  return edges.flatMap(({ kind, at }, index) =>
    kind === 'DATA' ? [{ start: at, end: edges[index + 1]?.at ?? sizeBytes }] : [],
  );
}

export async function writeSparse(path: string, { sizeBytes, pieces, bytes }: SparseContent): Promise<void> {
  const file = await open(path, 'wx');
  try {
    await file.truncate(sizeBytes);
    let done = 0;
    for (const [start, length] of pieces) {
      const end = done + length;
      for (let at = start; done < end;) {
        const { bytesWritten } = await file.write(bytes, done, end - done, at);
        done += bytesWritten;
        at += bytesWritten;
      }
    }
    await file.sync();
  } finally {
    await file.close();
  }
}
