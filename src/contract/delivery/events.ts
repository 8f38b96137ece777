/**
 * Event stream of an account, `GET /api/events`, and a reader that reconnects. Events are numbered
 * 1, 2, 3 … without holes; a `gap` names expired numbers.
 */
import { z } from 'zod';
import { EVENT_STREAM_TYPE, type Message, readStream, type ReadStreamDeps } from '../server-sent.ts';
import { eventsRoute, HEARTBEAT, streamCodes } from '../route.ts';
import { wholeNumber } from '../common.ts';

/** Name of the event for expired numbers; other events are named for their kind. */
export const GAP_EVENT = 'gap';

export const event = z.object({
  seq: z.number().int(),
  /** Such as `instance.launched` or `volume.created`. New kinds come without notice. */
  kind: z.string(),
  subjectId: z.string(),
  atUnixMs: z.number().int(),
  data: z.record(z.string(), z.unknown()),
});
export const gap = z.object({ fromSeq: z.number().int(), toSeq: z.number().int(), why: z.string() });

export type StreamedEvent = ({ type: 'event' } & z.output<typeof event>) | ({ type: 'gap' } & z.output<typeof gap>);

export interface EventOptions {
  /** Number of the last known event; by default only new events follow. */
  after?: number;
  /** Ends the loop, without an error. */
  signal?: AbortSignal;
}

/** Opens a stream after a number; null: new events only. */
export type OpenStream = (
  after: number | null,
  signal: AbortSignal | undefined,
) => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;

export interface EventReaderDeps extends Pick<ReadStreamDeps<StreamedEvent>, 'retryAfterS' | 'silenceMs'> {
  open: OpenStream;
}

/** Yields every event once, in order; reconnects. Throws the refusal of the first attempt. */
export const readEvents = (
  { after, signal }: EventOptions,
  deps: EventReaderDeps,
): AsyncGenerator<StreamedEvent, void> =>
  readStream(
    { after: after === undefined ? null : String(after), signal },
    {
      ...deps,
      open: (last, by) => deps.open(last === null ? null : Number(last), by),
      parse(message, last) {
        const parsed = parseEvent(message);
        return parsed?.type === 'event' && last !== null && parsed.seq <= Number(last) ? 'known' : parsed;
      },
    },
  );

function parseEvent({ name, data }: Message): StreamedEvent | null {
  if (data === '') return null;
  const json: unknown = JSON.parse(data);
  if (name === GAP_EVENT) return { type: 'gap', ...gap.parse(json) };
  return { type: 'event', ...event.parse(json) };
}

const AFTER = 'Number of the last known event; by default the stream begins with new events';
const MAX_EVENT = 999_999_999_999_999;
const eventsQuery = z.object({ after: wholeNumber(0, MAX_EVENT).meta({ description: AFTER, example: 42 }).optional() });

export const eventRoutes = {
  events: eventsRoute('/events', eventsQuery, {
    summary: "Stream the account's events, numbered without holes (Server-Sent Events)",
    details:
      'Each event has its number as `id`, its kind as `event`, and as `data` the JSON ' +
      '`{seq, kind, subjectId, atUnixMs, data}`. An event `gap` with `{fromSeq, toSeq, why}` names expired numbers. ' +
      HEARTBEAT,
    headers: [{ name: 'Last-Event-ID', description: `${AFTER}. Overrides \`after\``, pattern: '^[0-9]{0,15}$' }],
    successes: [
      { status: 200, description: 'Stream until either side or the login ends it', contentTypes: [EVENT_STREAM_TYPE] },
    ],
    codes: streamCodes,
  }),
} as const;
