import type { IncomingHttpHeaders } from 'node:http';

/** The three forms of RFC 9110, 5.6.7. */
const HTTP_DATE =
  /^(?:\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT|\w{6,9}, \d\d-\w{3}-\d\d [\d:]{8} GMT|\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})$/;

/** Null for text that is no date, which the RFC ignores. */
function parseHttpDate(text: string): number | null {
  if (!HTTP_DATE.test(text)) return null;
  const atMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(atMs) ? null : atMs;
}

interface Validators {
  etag: string;
  modifiedAtMs: number;
}

/**
 * Evaluates the conditions of GET and HEAD in the order of RFC 9110, 13.2.2. A tag overrides the
 * date beside it. Dates have whole seconds.
 */
export function checkConditions(
  headers: IncomingHttpHeaders,
  { etag, modifiedAtMs }: Validators,
): 'send' | 'unchanged' | 'changed' {
  const unmodifiedSince = (header: string | undefined): boolean | null => {
    const sinceMs = header === undefined ? null : parseHttpDate(header);
    return sinceMs === null ? null : Math.floor(modifiedAtMs / 1_000) * 1_000 <= sinceMs;
  };
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
  const holds = ifMatch === undefined ? unmodifiedSince(headers['if-unmodified-since']) : matchesEtag(ifMatch, etag);
  if (holds === false) return 'changed';
  const isKnown =
    ifNoneMatch === undefined ? unmodifiedSince(headers['if-modified-since']) : matchesEtagWeakly(ifNoneMatch, etag);
  return isKnown === true ? 'unchanged' : 'send';
}

const tagsOf = (header: string): string[] => header.split(',').map((tag) => tag.trim());

const matchesEtag = (header: string, etag: string): boolean =>
  tagsOf(header).some((tag) => tag === '*' || tag === etag);

const withoutWeakness = (tag: string): string => tag.replace(/^W\//, '');

export const matchesEtagWeakly = (header: string, etag: string): boolean =>
  tagsOf(header).some((tag) => tag === '*' || withoutWeakness(tag) === withoutWeakness(etag));
