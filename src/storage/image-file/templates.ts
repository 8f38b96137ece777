/**
 * Templates of empty disks: the content of an empty image per size, some 2 MB in `<root>/.empty`,
 * saves creating and growing a file system. Disks share only the UUID of a template (hence
 * `nouuid`). The folder may be deleted at any time.
 */
import { open, readdir, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { ifMissing, moveDurably, removeTree } from '../layout.ts';
import { imageMutex } from './image-mounts.ts';
import { readSparse, writeSparse, type SparseContent } from './sparse.ts';
import { TEMPLATE_VERSION } from './xfs.ts';

/** Usage of an empty file system: by itself, and by files. */
const use = z.object({ ownBytes: z.number(), usedBytes: z.number() });
export type EmptyUsage = z.infer<typeof use>;

const header = z.object({ use, sizeBytes: z.number(), pieces: z.array(z.tuple([z.number(), z.number()])) });

interface Template {
  image: SparseContent;
  use: EmptyUsage;
}

const TEMPLATE_NAME = /^(?:\.new-)?v\d+-\d+GB$/;

/** Evicts the least recently used sizes beyond 16, less than 40 MB. */
const TEMPLATE_LIMIT = 16;

interface TemplateDeps {
  root: string;
  /** Creates `folder` with a complete, unmounted image. */
  build: (folder: string, sizeGB: number) => Promise<EmptyUsage & { image: string }>;
  discard: (folder: string) => Promise<void>;
}

function pack({ image: { bytes, ...layout }, use }: Template): Buffer {
  const body = Buffer.concat([Buffer.from(`${JSON.stringify({ use, ...layout })}\n`), bytes]);
  return Buffer.concat([Buffer.from(`${crc32(body)}\n`), body]);
}

function unpack(packed: Buffer): Template | null {
  const [sum, body] = splitLine(packed);
  if (body.length === 0 || sum !== String(crc32(body))) return null;
  const [text, bytes] = splitLine(body);
  const { use, ...layout } = header.parse(JSON.parse(text));
  return { use, image: { ...layout, bytes } };
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
    return (await readdir(folder).catch(ifMissing([]))).filter((name) => TEMPLATE_NAME.test(name));
  }

  /** Deletes other versions and leftovers of a crash. */
  async function deleteExpired(): Promise<void> {
    try {
      for (const name of (await listNames()).filter((name) => !isCurrent(name))) {
        await discard(join(folder, name));
        await rm(join(folder, name), { force: true });
      }
    } catch {}
  }

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
      await removeTree(staging);
      await imageMutex.run(folder, evictOldest);
      return template;
    } catch (error) {
      await discard(staging);
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

  /** Shares a read or build in progress. */
  function templateOf(sizeGB: number): Promise<Template> {
    const current = pending.get(sizeGB);
    if (current !== undefined) return current;
    const template = read(sizeGB)
      .then((stored) => stored ?? make(sizeGB))
      .finally(() => pending.delete(sizeGB));
    pending.set(sizeGB, template);
    return template;
  }

  return async (path: string, sizeGB: number): Promise<EmptyUsage> => {
    await (cleanup ??= deleteExpired());
    const template = await templateOf(sizeGB);
    await writeSparse(path, template.image);
    return template.use;
  };
}
