/** The part of the document that is about streams: no answer ends them, and so they are outside of the table of routes. */
import type { ErrorCode } from './errors.ts';
import { LOG_TEXT_TYPE } from './log.ts';
import type { Json } from './openapi.ts';
import { EVENT_STREAM_TYPE } from './server-sent.ts';

type JsonObject = { [name: string]: Json };

const ALWAYS: readonly ErrorCode[] = [
  'not_logged_in',
  'forbidden',
  'field_value',
  'too_many_requests',
  'unavailable',
  'internal',
];

const QUERY: Readonly<Record<string, string>> = {
  instanceId: 'Whose log',
  source: 'The console, the log of the init script, or what happened to the instance',
  sinceUnixMs: 'Begins with lines of this time; not for the init script, whose log keeps no times',
  untilUnixMs: 'Of a download: ends before lines of this time',
  after: 'What `next` of an answer or the `id` of an event said: goes on there',
  tail: 'Begins with the last so many lines; 0 with what is written from now on. Without it, and without a time, with the oldest line that is kept',
  download: 'All that there is now, as a text that ends, and not a stream',
  times: 'Of a download: the time before each line, where the source keeps times',
};

export function streamPaths({
  problems,
  commonHeaders,
  whoMayCall,
  logQuery,
}: {
  problems: (codes: readonly ErrorCode[]) => JsonObject;
  commonHeaders: JsonObject;
  whoMayCall: string;
  /** The query of a log, as JSON Schema. */
  logQuery: JsonObject;
}): { events: JsonObject; logs: JsonObject } {
  const number: JsonObject = { type: 'integer', minimum: 0 };
  const text: JsonObject = { schema: { type: 'string' } };
  const after =
    'The number of the last event that is known; without it the stream begins with what happens from now on';
  return {
    events: {
      operationId: 'events',
      summary: "The account's events as they happen, numbered 1, 2, 3 … without holes (Server-Sent Events)",
      description:
        `${whoMayCall} Each event has its number as \`id\`, its kind as \`event\`, and as \`data\` the JSON ` +
        '`{seq, kind, subjectId, atUnixMs, data}`. Numbers that can not be told any more are an event `gap`: ' +
        '`{fromSeq, toSeq, why}`. A comment comes at least every 15 seconds. Source of the rule: ours.',
      tags: ['events'],
      parameters: [
        { name: 'Last-Event-ID', in: 'header', required: false, description: after, schema: number },
        { name: 'after', in: 'query', required: false, description: `${after}. The header decides`, schema: number },
      ],
      responses: {
        200: {
          description: 'The stream, until either side ends it or the login does',
          headers: commonHeaders,
          content: { [EVENT_STREAM_TYPE]: text },
        },
        ...problems(ALWAYS),
      },
    },
    logs: {
      operationId: 'followLogs',
      summary: 'The same as it comes (Server-Sent Events), or as a download',
      description:
        `${whoMayCall} Each line is an event \`line\` with the JSON \`{atUnixMs, text, cut}\` as \`data\`, and what to go on after ` +
        'as `id`. `gap` says that lines before the next one are no longer kept, `status` (`{status}`) that a run of the instance ' +
        'has ended or begins, `end` (`{why}`) that nothing more will come. A comment comes at least every 15 seconds. ' +
        'Source of the rule: ours.',
      tags: ['instance'],
      parameters: [
        {
          name: 'Last-Event-ID',
          in: 'header',
          required: false,
          description: 'As `after`, and in place of `tail` and `sinceUnixMs`: a browser sends it when it resumes',
          schema: { type: 'string' },
        },
        ...Object.entries(logQuery).map(([name, schema]) => ({
          name,
          in: 'query',
          required: name === 'instanceId',
          description: QUERY[name] ?? '',
          schema,
        })),
      ],
      responses: {
        200: {
          description: 'The stream, until it is over, either side ends it or the login does; or the whole text',
          headers: commonHeaders,
          content: { [EVENT_STREAM_TYPE]: text, [LOG_TEXT_TYPE]: text },
        },
        204: {
          description: 'It is over, and all of it was told before: a browser asks no more',
          headers: commonHeaders,
        },
        ...problems([...ALWAYS, 'field_missing', 'field_type', 'not_found', 'not_now', 'unsupported']),
      },
    },
  };
}
