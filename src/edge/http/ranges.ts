/** What of a file a request asks for (RFC 9110, 13 and 14). */
import type { IncomingHttpHeaders } from 'node:http';

/** From the byte `start` up to `end`, which is not in it. */
export interface ByteRange {
  start: number;
  end: number;
}

/** A part, all of it, or nothing that it has. Of several ranges in one request none is looked at: the answer is all of it, as allowed. */
export type RequestedRange = ({ kind: 'part' } & ByteRange) | { kind: 'whole' } | { kind: 'outside' };

export const WHOLE_FILE: RequestedRange = { kind: 'whole' };
const RANGE = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i;

export function parseRange(headers: IncomingHttpHeaders, etag: string, size: number): RequestedRange {
  const { range, 'if-range': ifRange } = headers;
  // A date is no strong validator: what changed twice in a second would be put together from both.
  if (range === undefined || (ifRange !== undefined && ifRange !== etag)) return WHOLE_FILE;
  const [, first = '', last = ''] = RANGE.exec(range) ?? [];
  if (first === '' && last === '') return WHOLE_FILE;
  if (first === '') return part(Math.max(0, size - Number(last)), size);
  if (last !== '' && Number(last) < Number(first)) return WHOLE_FILE;
  return part(Number(first), last === '' ? size : Math.min(size, Number(last) + 1));
}

const part = (start: number, end: number): RequestedRange =>
  start < end ? { kind: 'part', start, end } : { kind: 'outside' };

/** Whether a condition's list of tags has this one; weak ones count where `weakly`. */
export function matchesEtag(header: string, etag: string, { weakly }: { weakly: boolean }): boolean {
  const tags = header.split(',').map((tag) => tag.trim());
  return tags.some((tag) => tag === '*' || tag === etag || (weakly && tag === `W/${etag}`));
}
