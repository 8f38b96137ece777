/** Gzip for large answers (decision 33). A cached page is compressed once. */
import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Below, the transfer saves less time than the compression takes. */
const MIN_BYTES = 16 * 1024;
const compress = promisify(gzip);
const compressed = new WeakMap<Buffer, Promise<Buffer>>();

/** Returns the body as the client accepts it. The caller adds `Vary`. */
export async function encodeBody(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  body: Buffer | string,
): Promise<Buffer | string> {
  if (Buffer.byteLength(body) < MIN_BYTES || !accepts(headers['accept-encoding'], 'gzip')) return body;
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body);
  const known = compressed.get(bytes) ?? compress(bytes, { level: constants.Z_BEST_SPEED });
  compressed.set(bytes, known);
  reply.header('content-encoding', 'gzip');
  return known;
}

/** They take trimmed text: two adjacent `\s*` would need quadratic time, 0.1 s for 16 KiB. */
const codings = {
  gzip: /^(?:gzip|x-gzip|\*)(?:\s*;\s*q=(\d(?:\.\d{0,3})?))?$/i,
  br: /^(?:br|\*)(?:\s*;\s*q=(\d(?:\.\d{0,3})?))?$/i,
};

/** RFC 9110, 12.5.3. */
export function accepts(header: string | string[] | undefined, coding: keyof typeof codings): boolean {
  if (header === undefined) return false;
  const weights = String(header)
    .split(',')
    .flatMap((part) => {
      const found = codings[coding].exec(part.trim());
      return found ? [{ isAny: part.includes('*'), weight: Number(found[1] ?? 1) }] : [];
    });
  const own = weights.find(({ isAny }) => !isAny) ?? weights[0];
  return own !== undefined && own.weight > 0;
}
