/** Log part of the client: follows logs across reconnects, and downloads them. */
import { z } from 'zod';
import { logLine, logRoutes, LOG_END_EVENT, LOG_GAP_EVENT, LOG_LINE_EVENT, LOG_STATUS_EVENT } from './log.ts';
import type { LogSource } from '../../domain/compute/log-position.ts';
import { EVENT_STREAM_TYPE, readStream, type Message } from '../server-sent.ts';

const gap = z.object({ why: z.string() });
const status = z.object({ status: z.string() });

export type LogStreamItem =
  | ({ type: 'line' } & z.output<typeof logLine> & {
        /** Cursor of the line, or null. */
        after: string | null;
      })
  /** Lines before the next one are no longer kept. */
  | { type: 'gap'; why: string }
  /** Its run has ended, or another begins. */
  | { type: 'status'; status: string }
  | { type: 'end'; why: string };

export interface LogOptions {
  source?: LogSource;
  /** Number of last lines to begin with. Without a start the oldest stored line is the first. */
  tail?: number;
  sinceUnixMs?: number;
  after?: string;
  /** Ends the loop, without an error. */
  signal?: AbortSignal;
}

export interface LogCalls {
  /** Yields stored and new lines, and reconnects after a lost connection. */
  followLogs(instanceId: string, options?: LogOptions): AsyncGenerator<LogStreamItem, void>;
  /** Downloads the stored lines, body unread; with times unless `times` is false. */
  downloadLog(
    instanceId: string,
    options?: Pick<LogOptions, 'source' | 'tail' | 'sinceUnixMs' | 'signal'> & { times?: boolean },
  ): Promise<Response>;
}

export interface LogCallDeps {
  /** Returns a successful response with its body unread. */
  call: (
    url: string,
    accept: string,
    init: { headers: Record<string, string>; signal?: AbortSignal },
  ) => Promise<Response>;
  retryAfterS: (error: unknown) => number | null;
}

export function logCalls({ call, retryAfterS }: LogCallDeps): LogCalls {
  return {
    followLogs: (instanceId, { signal, after, ...where } = {}) =>
      readStream<LogStreamItem>(
        { after: after ?? null, signal },
        {
          retryAfterS,
          parse: parseLogItem,
          isEnd: ({ type }) => type === 'end',
          async open(last, by) {
            const headers: Record<string, string> = last === null ? {} : { 'last-event-id': last };
            const url = logUrl({ instanceId, ...where });
            const { body } = await call(url, EVENT_STREAM_TYPE, { headers, ...(by ? { signal: by } : {}) });
            return body ?? new ReadableStream({ start: (empty) => empty.close() });
          },
        },
      ),
    downloadLog: (instanceId, { signal, times = true, ...where } = {}) =>
      call(logUrl({ instanceId, ...where, download: true, times }), '*/*', {
        headers: {},
        ...(signal ? { signal } : {}),
      }),
  };
}

const logUrl = (query: Record<string, string | number | boolean | undefined>): string => {
  const set = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) set.set(name, String(value));
  return `${logRoutes.followLogs.path}?${set}`;
};

function parseLogItem({ id, name, data }: Message): LogStreamItem | null {
  if (data === '') return null;
  const json: unknown = JSON.parse(data);
  switch (name) {
    case LOG_LINE_EVENT:
      return { type: 'line', ...logLine.parse(json), after: id };
    case LOG_GAP_EVENT:
      return { type: 'gap', ...gap.parse(json) };
    case LOG_STATUS_EVENT:
      return { type: 'status', ...status.parse(json) };
    case LOG_END_EVENT:
      return { type: 'end', ...gap.parse(json) };
    default:
      // Event of a newer server.
      return null;
  }
}
