/** Between the words of the contract about logs and those of control. */
import type { LogLine } from '../../contract/log.ts';
import type { LogPage, LogRequest } from '../../control/index.ts';
export const fromOf = (asked: {
  after?: string | undefined;
  tail?: number | undefined;
  sinceUnixMs?: number | undefined;
}): LogRequest['from'] => {
  if (asked.after !== undefined) return { after: asked.after };
  if (asked.tail !== undefined) return { tail: asked.tail };
  return asked.sinceUnixMs === undefined ? { beginning: true } : { sinceMs: asked.sinceUnixMs };
};

export const publicLine = ({ atMs, text, cut }: LogPage['lines'][number]): LogLine => ({ atUnixMs: atMs, text, cut });
