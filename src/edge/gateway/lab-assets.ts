/**
 * Scripts and fonts of JupyterLab, at `/.berth/lab/<build>/<file>`, and of its extensions, below
 * `extensions/`: browsers keep them for later instances with the same build. Public, and copied out
 * of the image that Berth built, never out of an instance. `X-Berth-Lab` names the builds to
 * notebooks (`images/notebook/berth_lab.py`).
 */
import { readdir, readFile } from 'node:fs/promises';
import { extname, join, relative } from 'node:path';
import { accepts } from '../http/compression.ts';
import { badRequest, noSuchFile, sendAnswer } from './answers.ts';
import { abort, type ClientRequest, type ClientResponse } from './client-exchange.ts';
import type { Head } from './head.ts';
import { IdleWatched, type IdleTimeouts } from './idle-timeouts.ts';

const REREAD_MS = 5_000;
/** Written at once: a slow client holds no copy of a file. */
const CHUNK_BYTES = 64 * 1024;

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.ttf': 'font/ttf',
  '.woff': 'font/woff',
  '.woff2': 'font/woff2',
};
const BUILD = /^[0-9a-f]{32}$/;

interface Build {
  folder: string;
  /** Names of regular files, the only ones served. */
  files: ReadonlySet<string>;
  /** Content by name; at most all files of a build, 20 MB. */
  contents: Map<string, Promise<Buffer>>;
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => []);

const textOf = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '');

/** Names of regular files, relative to the folder; below `part` with those of its folders. */
async function filesIn(folder: string, part?: string): Promise<string[]> {
  const at = join(folder, part ?? '');
  const recursive = part !== undefined;
  const entries = await readdir(at, { withFileTypes: true, recursive }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(folder, join(parentPath, name)));
}

export interface LabAssetsDeps {
  folder: string | null;
  elapsed: () => number;
  idle: IdleTimeouts;
  clientIdleMs: number;
}

export class LabAssets {
  readonly #folder: string | null;
  readonly #elapsed: () => number;
  readonly #idle: IdleTimeouts;
  readonly #clientIdleMs: number;
  #builds: ReadonlyMap<string, Build> = new Map();
  /** Pages by image (`start-page.ts`). */
  #pages: ReadonlyMap<string, string> = new Map();
  #readAtMs = -Infinity;
  #reading: Promise<void> = Promise.resolve();

  constructor({ folder, elapsed, idle, clientIdleMs }: LabAssetsDeps) {
    this.#folder = folder;
    this.#elapsed = elapsed;
    this.#idle = idle;
    this.#clientIdleMs = clientIdleMs;
  }

  /** Header for a notebook. Reads the folder again beside: a later request gets a new build. */
  offer(): string[] {
    void this.#reread();
    return this.#builds.size === 0 ? [] : ['X-Berth-Lab', [...this.#builds.keys()].join(' ')];
  }

  async page(image: string): Promise<string | undefined> {
    if (!this.#pages.has(image)) await this.#reread();
    return this.#pages.get(image);
  }

  async answer(req: ClientRequest, res: ClientResponse, head: Head, path: string): Promise<void> {
    const method = req.method ?? 'GET';
    if (method !== 'GET' && method !== 'HEAD') {
      const refused = { ...badRequest('a script of JupyterLab is read with GET or HEAD', 405) };
      return sendAnswer(req, res, { ...refused, headers: ['Allow', 'GET, HEAD'] }, head.accept);
    }
    const [name = '', ...rest] = path.split('/');
    if (!this.#builds.has(name)) await this.#reread();
    const build = this.#builds.get(name);
    const file = rest.join('/');
    const type = TYPES[extname(file)];
    if (build === undefined || type === undefined || !build.files.has(file))
      return sendAnswer(req, res, noSuchFile(), head.accept);
    const packed = `${file}.gz`;
    const isPacked = build.files.has(packed) && accepts(head.acceptEncoding ?? undefined, 'gzip');
    const etag = `"${name}${isPacked ? '-gzip' : ''}"`;
    const headers = ['Cache-Control', 'public, max-age=31536000, immutable', 'ETag', etag, 'Vary', 'Accept-Encoding'];
    headers.push('X-Content-Type-Options', 'nosniff', 'Cross-Origin-Resource-Policy', 'same-origin');
    if (head.ifNoneMatch !== null && isMatch(head.ifNoneMatch, etag)) {
      res.writeHead(304, undefined, headers);
      return void res.end();
    }
    const content = await contentOf(build, isPacked ? packed : file);
    if (content === null) return sendAnswer(req, res, noSuchFile(), head.accept);
    headers.push('Content-Type', type, 'Content-Length', String(content.length), 'Accept-Ranges', 'none');
    if (isPacked) headers.push('Content-Encoding', 'gzip');
    res.writeHead(200, undefined, headers);
    if (method === 'HEAD') return void res.end();
    new Sending(req, res, content, this.#clientIdleMs).begin(this.#idle);
  }

  #reread(): Promise<void> {
    const nowMs = this.#elapsed();
    if (this.#folder !== null && nowMs - this.#readAtMs >= REREAD_MS) {
      this.#readAtMs = nowMs;
      this.#reading = this.#read(join(this.#folder, 'versions'));
    }
    return this.#reading;
  }

  async #read(versions: string): Promise<void> {
    const builds = new Map<string, Build>();
    const pages = new Map<string, string>();
    for (const version of await namesIn(versions)) {
      const [image, page] = await Promise.all(
        ['image', 'page.html'].map((name) => textOf(join(versions, version, name))),
      );
      if (image && page) pages.set(image, page);
      const lab = join(versions, version, 'lab');
      for (const name of (await namesIn(lab)).filter((one) => BUILD.test(one) && !builds.has(one))) {
        const folder = join(lab, name);
        const known = this.#builds.get(name);
        const files = new Set([...(await filesIn(folder)), ...(await filesIn(folder, 'extensions'))]);
        builds.set(name, known?.folder === folder ? known : { folder, files, contents: known?.contents ?? new Map() });
      }
    }
    this.#builds = builds;
    this.#pages = pages;
  }
}

/** RFC 9110 §13.1.2: weak comparison. */
const isMatch = (ifNoneMatch: string, etag: string): boolean =>
  ifNoneMatch.split(',').some((one) => ['*', etag].includes(one.trim().replace(/^W\//, '')));

/** Null if the file was removed with its version. */
async function contentOf({ folder, contents }: Build, file: string): Promise<Buffer | null> {
  const content = contents.get(file) ?? readFile(join(folder, file));
  contents.set(file, content);
  try {
    return await content;
  } catch {
    contents.delete(file);
    return null;
  }
}

class Sending extends IdleWatched {
  readonly #req: ClientRequest;
  readonly #res: ClientResponse;
  readonly #content: Buffer;
  readonly #limitMs: number;
  #sent = 0;

  constructor(req: ClientRequest, res: ClientResponse, content: Buffer, limitMs: number) {
    super();
    this.#req = req;
    this.#res = res;
    this.#content = content;
    this.#limitMs = limitMs;
  }

  begin(idle: IdleTimeouts): void {
    idle.watch(this);
    this.#res.once('close', () => idle.done(this));
    this.#send();
  }

  #send(): void {
    while (this.#sent < this.#content.length && !this.#res.destroyed) {
      const from = this.#sent;
      this.#sent += CHUNK_BYTES;
      if (!this.#res.write(this.#content.subarray(from, this.#sent)))
        return void this.#res.once('drain', () => this.#send());
    }
    this.#res.end();
  }

  override moves(): number {
    return this.#sent;
  }

  override limitMs(): number {
    return this.#limitMs;
  }

  override expire(): void {
    abort(this.#req, this.#res);
  }
}
