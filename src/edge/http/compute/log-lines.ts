/** Positions and lines of logs on the wire. */
import type { PublicLogLine } from '../../../contract/compute/log.ts';
import type { BodyOf } from '../../../contract/routes.ts';
import type { LogPage, LogRequest } from '../../../control/index.ts';

type LogStart = Pick<BodyOf<'logs'>, 'after' | 'tail' | 'sinceUnixMs'>;

export function fromOf({ after, tail, sinceUnixMs }: LogStart): LogRequest['from'] {
  if (after !== undefined) return { after };
  if (tail !== undefined) return { tail };
  return sinceUnixMs === undefined ? { beginning: true } : { sinceMs: sinceUnixMs };
}

export const presentLogLine = ({ atMs, text, cut }: LogPage['lines'][number]): PublicLogLine => ({
  atUnixMs: atMs,
  text,
  cut,
});
