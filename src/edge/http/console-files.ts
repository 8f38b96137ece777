/**
 * The web console: its page at each of its places, and its files with hashed names. They are read
 * once, at the mount, with the compressed copies that the build made beside them.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { CHECKING_PLACE, consolePlaces, isConsolePath } from '../../contract/console-places.ts';
import { accepts } from './compression.ts';
import { HTML_TYPE } from './html.ts';
import { pathOf } from './refusal-reply.ts';
import { addVary, setCommonHeaders } from './reply-headers.ts';
import { costOfFile, type RequestRates } from './request-rates.ts';

/** Folder of files whose names change with their content. */
const HASHED = 'console-assets';
const FOREVER = 'public, max-age=31536000, immutable';
const DAY = 'public, max-age=86400';
/** Place of the nonce in the page: styles that scripts add carry it. */
const NONCE = '%STYLE_NONCE%';

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** Codings by preference, with the ending of the copy. */
const codings = { br: '.br', gzip: '.gz' } as const;

interface ConsoleFile {
  type: string;
  cacheControl: string;
  plain: Buffer;
  copies: { coding: keyof typeof codings; bytes: Buffer }[];
}

const pagePolicy = (nonce: string, connects: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "worker-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self'",
    `connect-src ${connects}`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');

/** Policy of scripts: a worker has that of its own script, and follows the events of the API. */
const SCRIPT_POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'";
const FILE_POLICY = "default-src 'none'";

/** A built console. */
export interface ConsoleFiles {
  page: string;
  /** Addresses that the page of the health checks. */
  checked: readonly string[];
  /** By path below the root, without its slash. */
  files: ReadonlyMap<string, ConsoleFile>;
}

/** Null without a built console in the folder. */
export function readConsole(folder: string, checked: readonly string[] = []): ConsoleFiles | null {
  const pageFile = path.join(folder, 'index.html');
  if (!existsSync(pageFile)) return null;
  // Views are at any depth.
  return { page: readFileSync(pageFile, 'utf8').replaceAll('="./', '="/'), files: filesOf(folder), checked };
}

/** Whether the console answers GET at the path. */
export const isOfConsole = ({ files }: ConsoleFiles, at: string): boolean =>
  isConsolePath(at) || files.has(at.slice(1));

export function sendConsole(
  { page, checked }: ConsoleFiles,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const nonce = randomBytes(16).toString('base64');
  const others = pathOf(request.url) === CHECKING_PLACE ? checked : [];
  const connects = ["'self'", ...others.flatMap((url) => [url, url.replace(/^http/, 'ws')])].join(' ');
  return (
    setCommonHeaders(request, reply, HTML_TYPE)
      .header('content-security-policy', pagePolicy(nonce, connects))
      // The gateway opens links of the API's origin alone without a question.
      .header('referrer-policy', 'origin')
      .header('x-frame-options', 'DENY')
      .send(page.replaceAll(NONCE, nonce))
  );
}

export function mountConsole(
  app: FastifyInstance,
  built: ConsoleFiles,
  rates: Pick<RequestRates, 'takeOfAddress'>,
): void {
  const sendPage = (request: FastifyRequest, reply: FastifyReply) => sendConsole(built, request, reply);
  app.get('/', sendPage);
  for (const place of consolePlaces) {
    app.get(`/${place}`, sendPage);
    app.get(`/${place}/*`, sendPage);
  }
  for (const [name, file] of built.files)
    app.get(`/${name}`, async (request, reply) => {
      rates.takeOfAddress(request.ip, reply, costOfFile(file.plain.length));
      return sendFile(file, request, reply);
    });
}

function sendFile(
  { type, cacheControl, plain, copies }: ConsoleFile,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const copy = copies.find(({ coding }) => accepts(request.headers['accept-encoding'], coding));
  setCommonHeaders(request, reply, type)
    .header('cache-control', cacheControl)
    .header('content-security-policy', type === types['.js'] ? SCRIPT_POLICY : FILE_POLICY);
  addVary(reply, 'Accept-Encoding');
  if (copy === undefined) return reply.send(plain);
  return reply.header('content-encoding', copy.coding).send(copy.bytes);
}

function filesOf(folder: string): Map<string, ConsoleFile> {
  const files = new Map<string, ConsoleFile>();
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const type = types[path.extname(name)];
    if (type === undefined) continue;
    const copies = (['br', 'gzip'] as const)
      .map((coding) => ({ coding, file: path.join(folder, name + codings[coding]) }))
      .filter(({ file }) => existsSync(file))
      .map(({ coding, file }) => ({ coding, bytes: readFileSync(file) }));
    const cacheControl = name.startsWith(`${HASHED}${path.sep}`) ? FOREVER : DAY;
    files.set(name.replaceAll(path.sep, '/'), {
      type,
      cacheControl,
      plain: readFileSync(path.join(folder, name)),
      copies,
    });
  }
  return files;
}
