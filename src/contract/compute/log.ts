/** Logs of an instance, by page, as a stream or as a download (docs/reference/logs.md). */
import { z } from 'zod';
import { logSources, type LogSource } from '../../domain/compute/log-position.ts';
import { answer, flag, id, integerOrNull, named, text, textOrNull, wholeNumber } from '../common.ts';
import { eventsRoute, HEARTBEAT, instanceStreamCodes, readRoute } from '../route.ts';
import { EVENT_STREAM_TYPE } from '../server-sent.ts';

export const LOG_TEXT_TYPE = 'text/plain; charset=utf-8';

export const MAX_LOG_LINES = 5_000;
export const DEFAULT_LOG_LINES = 1_000;
const TIMED = 'the logs of scripts and notebook keep no times: leave it out, and use tail, or limit and after';
const isUntimed = (source: LogSource): boolean => source !== 'console' && source !== 'events';

/** Cursors of each source, opaque to clients. */
export const afterPatterns = {
  console: /^\d{1,15}\.[1-9]\d{0,8}$/,
  init: /^\d{1,15}$/,
  start: /^\d{1,15}$/,
  notebook: /^\d{1,15}$/,
  events: /^\d{1,15}$/,
} as const;

/** Cursors of all sources. */
export const AFTER = '^[0-9]{1,15}([.][1-9][0-9]{0,8})?$';

const timeMs = wholeNumber(0, 8_640_000_000_000_000);

const range = {
  instanceId: id.describe('Instance ID'),
  source: z
    .enum(logSources)
    .default('console')
    .describe('Console, init script, start command, notebook server or events of the instance'),
  sinceUnixMs: timeMs.describe('First time, Unix milliseconds; for `console` and `events`').optional(),
  untilUnixMs: timeMs
    .describe('End time, exclusive, Unix milliseconds; for `console` and `events`, not for a stream')
    .optional(),
  after: z
    .string()
    .max(30)
    .meta({ pattern: AFTER })
    .describe('Cursor: `next` of an answer or `id` of a stream event')
    .optional(),
};

const count = wholeNumber(1, MAX_LOG_LINES);

export const logsRequest = named(
  'LogsRequest',
  z
    .object({
      ...range,
      tail: count.describe('Number of last lines; not with `limit`').optional(),
      limit: count.describe(`Number of first lines, ${DEFAULT_LOG_LINES} by default`).optional(),
    })
    .superRefine(refuseConflicts),
);

/** Query of the stream and the download. */
export const logStreamRequest = z
  .object({
    ...range,
    tail: wholeNumber(0, MAX_LOG_LINES)
      .describe('Number of last lines to begin with; by default all stored lines')
      .optional(),
    download: z.enum(['true', 'false']).default('false').describe('Return the stored lines as text and end'),
    times: z.enum(['true', 'false']).default('true').describe('Begin each line of a download with its time'),
  })
  .superRefine(refuseConflicts);

type LogQuery = {
  source: LogSource;
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

/** The first field that conflicts with another, and the reason, which begins with "must". */
function findConflict({
  source,
  sinceUnixMs,
  untilUnixMs,
  tail,
  limit,
  after,
  download,
}: LogQuery): [keyof LogQuery, string] | null {
  if (isUntimed(source) && sinceUnixMs !== undefined) return ['sinceUnixMs', `must not be set: ${TIMED}`];
  if (isUntimed(source) && untilUnixMs !== undefined) return ['untilUnixMs', `must not be set: ${TIMED}`];
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

const logLineFields = {
  atUnixMs: integerOrNull('Start of the line, Unix milliseconds; null but for `console` and `events`'),
  text: text('Line without its end; invalid UTF-8 is U+FFFD, control characters stay'),
  cut: flag('Whether the line was cut after 16 KiB'),
};
export const logLine = z.object(logLineFields);
export type PublicLogLine = z.output<typeof logLine>;

export const logsAnswer = answer('LogsAnswer', {
  instanceId: text('Instance ID'),
  source: z.enum(logSources).describe('Source of the lines'),
  lines: z.array(answer('LogLine', logLineFields)).describe('Lines in order'),
  next: textOrNull('Cursor for `after`; null before the first line'),
  more: flag('Whether more lines are stored'),
  gap: flag('Whether lines after the given cursor were dropped'),
});

export const LOG_LINE_EVENT = 'line';
export const LOG_GAP_EVENT = 'gap';
export const LOG_STATUS_EVENT = 'status';
export const LOG_END_EVENT = 'end';

export const logRoutes = {
  logs: readRoute('/instance/logs', logsRequest, logsAnswer, {
    summary:
      'Read the console, init script log or events of an instance by page; GET the same path for a stream or download',
  }),
  followLogs: eventsRoute('/instance/logs', logStreamRequest, {
    summary: 'Stream the logs of an instance (Server-Sent Events), or download them',
    details:
      'Each line is an event `line` with the JSON `{atUnixMs, text, cut}` as `data` and a cursor as `id`. ' +
      '`gap` marks dropped lines, `status` (`{status}`) a new status of the instance, `end` (`{why}`) the end of the stream. ' +
      HEARTBEAT,
    headers: [
      {
        name: 'Last-Event-ID',
        pattern: AFTER,
        description: 'Cursor, as `after`; overrides `tail` and `sinceUnixMs`. Browsers send it to resume',
      },
    ],
    successes: [
      {
        status: 200,
        description: 'Stream until its end, or until either side or the login ends it; or the download',
        contentTypes: [EVENT_STREAM_TYPE, LOG_TEXT_TYPE],
      },
      { status: 204, description: 'The resumed stream has ended; browsers stop reconnecting' },
    ],
    codes: instanceStreamCodes,
  }),
} as const;
