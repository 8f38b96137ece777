/**
 * Event stream of an account, `GET /api/events`, and a reader that reconnects. Events are numbered
 * 1, 2, 3 … without holes; a `gap` names expired numbers.
 */
import { z } from 'zod';
import { readStream, type Message, type StreamDeps } from './server-sent.ts';

/** Name of the event for expired numbers; other events are named for their kind. */
export const GAP_EVENT = 'gap';

export const event = z.object({
  seq: z.number().int(),
  /** `instance.launched`, `instance.observed`, `volume.created`, `disk.nearlyFull` … New kinds come without notice. */
  kind: z.string(),
  subjectId: z.string(),
  atUnixMs: z.number().int(),
  data: z.record(z.string(), z.unknown()),
});
export const gap = z.object({ fromSeq: z.number().int(), toSeq: z.number().int(), why: z.string() });

export type StreamedEvent = ({ type: 'event' } & z.output<typeof event>) | ({ type: 'gap' } & z.output<typeof gap>);

export interface EventOptions {
  /** The number of the last event that is known; without it the stream begins with what happens from now on. */
  after?: number;
  /** Ends the loop, without an error. */
  signal?: AbortSignal;
}

/** Opens a stream after that number (null: from now on). Rejects with the refusal, or with what says that it can't be reached. */
export type OpenStream = (
  after: number | null,
  signal: AbortSignal | undefined,
) => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;

export interface EventReaderDeps extends Pick<StreamDeps<StreamedEvent>, 'retryAfterS' | 'silenceMs'> {
  open: OpenStream;
}

/** Every event once and in order, over as many connections as it takes. What the first attempt is refused with is thrown. */
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
        const told = parseEvent(message);
        return told?.type === 'event' && last !== null && told.seq <= Number(last) ? 'known' : told;
      },
    },
  );

function parseEvent({ name, data }: Message): StreamedEvent | null {
  if (data === '') return null;
  const json: unknown = JSON.parse(data);
  if (name === GAP_EVENT) return { type: 'gap', ...gap.parse(json) };
  return { type: 'event', ...event.parse(json) };
}
