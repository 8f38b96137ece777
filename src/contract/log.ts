/**
 * The logs of an instance: read by the page (`POST /api/instance/logs`), and at the same path by GET followed as they come, as Server-Sent
 * Events (WHATWG HTML, 9.2), or downloaded as text. All of it ours; docs/reference/logs.md tells the whole.
 */
import { z } from 'zod';
import { id } from './common.ts';

export const LOGS_PATH = '/instance/logs';
export const LOG_TEXT_TYPE = 'text/plain; charset=utf-8';

export const logSources = ['console', 'init', 'events'] as const;
export const MAX_LOG_LINES = 5_000;
export const DEFAULT_LOG_LINES = 1_000;
const TIMED = 'the log of the init script keeps no times: leave it out, and use tail, or limit and after';

/** What an `after` of each source looks like; it is told, and means nothing but where a reader is. */
export const afterPatterns = {
  console: /^\d{1,15}\.[1-9]\d{0,8}$/,
  init: /^\d{1,15}$/,
  events: /^\d{1,15}$/,
} as const;

const timeMs = z.number().int().min(0).max(8_640_000_000_000_000);

/** What both ways of reading take. */
const range = {
  instanceId: id,
  source: z.enum(logSources).default('console'),
  /** From this time on. */
  sinceUnixMs: timeMs.optional(),
  /** Before this time. */
  untilUnixMs: timeMs.optional(),
  /** `next` of an answer, or `id` of an event of a stream: goes on there. */
  after: z.string().max(30).optional(),
};

const count = z.number().int().min(1).max(MAX_LOG_LINES);

export const logsRequest = z
  .object({
    ...range,
    /** The last so many; else the first. */
    tail: count.optional(),
    limit: count.optional(),
  })
  .superRefine(refuseConflicts);

/** The query of GET. A stream has no `untilUnixMs`, and of a `tail` of 0 begins with what is written from now on. */
export const logStreamRequest = z
  .object({
    ...range,
    tail: z.number().int().min(0).max(MAX_LOG_LINES).optional(),
    download: z.enum(['true', 'false']).default('false'),
    /** Of a download: before each line. */
    times: z.enum(['true', 'false']).default('true'),
  })
  .superRefine(refuseConflicts);

type LogQuery = {
  source: (typeof logSources)[number];
  sinceUnixMs?: number | undefined;
  untilUnixMs?: number | undefined;
  tail?: number | undefined;
  limit?: number | undefined;
  after?: string | undefined;
  download?: 'true' | 'false';
};

function refuseConflicts(value: LogQuery, ctx: z.RefinementCtx): void {
  const wrong = findConflict(value);
  if (wrong !== null) ctx.addIssue({ code: 'custom', path: [wrong[0]], message: wrong[1], input: value[wrong[0]] });
}

/** The field that does not go with the others, and why; its words begin with "must". */
function findConflict({
  source,
  sinceUnixMs,
  untilUnixMs,
  tail,
  limit,
  after,
  download,
}: LogQuery): [keyof LogQuery, string] | null {
  if (source === 'init' && sinceUnixMs !== undefined) return ['sinceUnixMs', `must not be set: ${TIMED}`];
  if (source === 'init' && untilUnixMs !== undefined) return ['untilUnixMs', `must not be set: ${TIMED}`];
  if (sinceUnixMs !== undefined && untilUnixMs !== undefined && sinceUnixMs >= untilUnixMs)
    return ['sinceUnixMs', 'must be before untilUnixMs'];
  if (untilUnixMs !== undefined && download === 'false')
    return ['untilUnixMs', 'must not be set for a stream, which goes on; for a download, or POST, it may'];
  if (tail !== undefined && limit !== undefined) return ['tail', 'must not be set together with limit'];
  if (after === undefined) return null;
  if (!afterPatterns[source].test(after))
    return ['after', `must be what "next" said for the source "${source}"; leave it out to begin with the oldest line`];
  if (sinceUnixMs !== undefined) return ['after', 'must not be set together with sinceUnixMs'];
  if (tail !== undefined) return ['after', 'must not be set together with tail'];
  return null;
}

export const logLine = z.object({
  /** When it was begun; null where the source keeps no times. */
  atUnixMs: z.number().int().nullable(),
  /** Without its end. What is no UTF-8 is U+FFFD; control characters are left as they are. */
  text: z.string(),
  /** It was longer than 16 KiB, and is its beginning. */
  cut: z.boolean(),
});
export type LogLine = z.output<typeof logLine>;

export const logsAnswer = z.strictObject({
  instanceId: z.string(),
  source: z.enum(logSources),
  lines: z.array(z.strictObject(logLine.shape)),
  /** What to send as `after` to read on, at once or later; null: there was nothing yet. */
  next: z.string().nullable(),
  /** There is more already. */
  more: z.boolean(),
  /** Some lines after what `after` stood for are no longer kept. */
  gap: z.boolean(),
});

/** Names of the events of a stream that are no line. */
export const LOG_LINE_EVENT = 'line';
export const LOG_GAP_EVENT = 'gap';
export const LOG_STATUS_EVENT = 'status';
export const LOG_END_EVENT = 'end';
