/** Parses range and condition headers of a download (RFC 9110, 13 and 14). */
import type { IncomingHttpHeaders } from 'node:http';

/** `end` is exclusive. */
export interface ByteRange {
  start: number;
  end: number;
}

/** Several ranges count as `whole`, as the RFC allows. */
export type RequestedRange = ({ kind: 'part' } & ByteRange) | { kind: 'whole' } | { kind: 'outside' };

export const WHOLE_FILE: RequestedRange = { kind: 'whole' };
const RANGE = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i;

export function parseRange(headers: IncomingHttpHeaders, etag: string, size: number): RequestedRange {
  const { range, 'if-range': ifRange } = headers;
  // A date is a weak validator: two changes within a second would mix two versions.
  if (range === undefined || (ifRange !== undefined && ifRange !== etag)) return WHOLE_FILE;
  const [, first = '', last = ''] = RANGE.exec(range) ?? [];
  if (first === '' && last === '') return WHOLE_FILE;
  if (first === '') return part(Math.max(0, size - Number(last)), size);
  if (last !== '' && Number(last) < Number(first)) return WHOLE_FILE;
  return part(Number(first), last === '' ? size : Math.min(size, Number(last) + 1));
}

const part = (start: number, end: number): RequestedRange =>
  start < end ? { kind: 'part', start, end } : { kind: 'outside' };

export function matchesEtag(header: string, etag: string, { weakly }: { weakly: boolean }): boolean {
  const tags = header.split(',').map((tag) => tag.trim());
  return tags.some((tag) => tag === '*' || tag === etag || (weakly && tag === `W/${etag}`));
}
