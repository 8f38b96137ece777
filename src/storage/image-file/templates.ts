/**
 * What empty disks are made from. Making a file system, and widening it while it is mounted, takes longer than all else that a new disk
 * needs; so what is in an empty image of a size is kept, some 2 MB whatever the size, and each disk of that size is written out from it. The
 * blocks are its own: nothing is shared with the template, and its first writes are as quick as any. (Its UUID is shared: `nouuid` is for that.)
 *
 * Templates are files in `<root>/.empty`, named for their size and for how images are made. One that is missing, damaged or left half
 * made is made anew, so that the folder may be deleted at any time.
 */
import { imageMutex } from './image-mutex.ts';
import { open, readdir, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { isMissing, moveDurably, removeTree } from '../layout.ts';
import { readSparse, writeSparse, type SparseContent } from './sparse.ts';
import { TEMPLATE_VERSION } from './xfs.ts';

/** Of an empty file system: what it uses itself, and what its files do. */
const use = z.object({ ownBytes: z.number(), usedBytes: z.number() });
type EmptyUsage = z.infer<typeof use>;

const header = z.object({ use, sizeBytes: z.number(), pieces: z.array(z.tuple([z.number(), z.number()])) });

interface Template {
  image: SparseContent;
  use: EmptyUsage;
}

const TEMPLATE_NAME = /^(?:\.new-)?v\d+-\d+GB$/;

/**
 * So many sizes, those last used: the disks that instances get by themselves have three or four, volumes mostly a few round ones. All
 * together take less than 40 MB, and one who asks for every size there is leaves no more.
 */
const TEMPLATE_LIMIT = 16;

interface TemplateDeps {
  root: string;
  /** Makes the folder with a whole empty image in it, which is not mounted any more. */
  build: (folder: string, sizeGB: number) => Promise<EmptyUsage & { image: string }>;
  /** Removes a folder that `build` made or began, and what of it is mounted. */
  discard: (folder: string) => Promise<void>;
}

/** Its sum comes first, so that a damaged one is told from a whole one. */
function pack({ image: { bytes, ...about }, use }: Template): Buffer {
  const body = Buffer.concat([Buffer.from(`${JSON.stringify({ use, ...about })}\n`), bytes]);
  return Buffer.concat([Buffer.from(`${crc32(body)}\n`), body]);
}

function unpack(packed: Buffer): Template | null {
  const [sum, body] = splitLine(packed);
  if (body.length === 0 || sum !== String(crc32(body))) return null;
  const [text, bytes] = splitLine(body);
  const { use, ...about } = header.parse(JSON.parse(text));
  return { use, image: { ...about, bytes } };
}

function splitLine(lines: Buffer): [first: string, rest: Buffer] {
  const end = lines.indexOf('\n');
  return end < 0 ? ['', Buffer.alloc(0)] : [lines.toString('utf8', 0, end), lines.subarray(end + 1)];
}

export function makeTemplates({ root, build, discard }: TemplateDeps) {
  const folder = join(root, '.empty');
  const pathOf = (sizeGB: number): string => join(folder, `${TEMPLATE_VERSION}-${sizeGB}GB`);
  const stagingOf = (sizeGB: number): string => join(folder, `.new-${TEMPLATE_VERSION}-${sizeGB}GB`);
  const isCurrent = (name: string): boolean => name.startsWith(`${TEMPLATE_VERSION}-`);
  const pending = new Map<number, Promise<Template>>();
  let cleanup: Promise<void> | null = null;

  async function listNames(): Promise<string[]> {
    try {
      return (await readdir(folder)).filter((name) => TEMPLATE_NAME.test(name));
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }

  /** Those of another make, and what a server left that died while it made one. */
  async function deleteExpired(): Promise<void> {
    try {
      for (const name of (await listNames()).filter((one) => !isCurrent(one))) {
        await discard(join(folder, name));
        await rm(join(folder, name), { force: true });
      }
    } catch {
      // What is left is in nobody's way, and goes after a later start.
    }
  }

  /** One that can't be read is as good as none. */
  async function read(sizeGB: number): Promise<Template | null> {
    const file = await open(pathOf(sizeGB)).catch(() => null);
    if (file === null) return null;
    try {
      const now = new Date();
      await file.utimes(now, now);
      return unpack(await file.readFile());
    } catch {
      return null;
    } finally {
      await file.close();
    }
  }

  async function make(sizeGB: number): Promise<Template> {
    const staging = stagingOf(sizeGB);
    await discard(staging);
    try {
      const { image, ...use } = await build(staging, sizeGB);
      const template: Template = { image: await readSparse(image), use };
      const packed = join(staging, 'packed');
      await writeFile(packed, pack(template), { flush: true });
      await moveDurably(packed, pathOf(sizeGB));
      // Not mounted any more; its device goes a moment later, and nobody need wait for that.
      await removeTree(staging);
      await imageMutex.run(folder, evictOldest);
      return template;
    } catch (error) {
      await discard(staging);
      // Where images can't be made at all nothing is left of the attempt.
      await rmdir(folder).catch(() => {});
      throw error;
    }
  }

  async function evictOldest(): Promise<void> {
    const paths = (await listNames()).filter(isCurrent).map((name) => join(folder, name));
    if (paths.length <= TEMPLATE_LIMIT) return;
    const all = await Promise.all(paths.map(async (path) => ({ path, usedMs: (await stat(path)).mtimeMs })));
    for (const { path } of all.toSorted((a, b) => b.usedMs - a.usedMs).slice(TEMPLATE_LIMIT)) await rm(path);
  }

  /** Whoever asks for a size that is being read or made already gets that. */
  function templateOf(sizeGB: number): Promise<Template> {
    const current = pending.get(sizeGB);
    if (current !== undefined) return current;
    const template = read(sizeGB)
      .then((found) => found ?? make(sizeGB))
      .finally(() => pending.delete(sizeGB));
    pending.set(sizeGB, template);
    return template;
  }

  return {
    /** An empty image at `path`, where there is none, to be found there after a power cut. */
    async writeEmpty(path: string, sizeGB: number): Promise<EmptyUsage> {
      await (cleanup ??= deleteExpired());
      const template = await templateOf(sizeGB);
      await writeSparse(path, template.image);
      return template.use;
    },
  };
}
