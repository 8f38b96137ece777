/**
 * The live stream of an account's events, `GET /api/events`: Server-Sent Events (WHATWG HTML, 9.2), and a reader of it that resumes by
 * itself. Events of an account are numbered 1, 2, 3 … without holes; what can't be told any more is handed out as a gap.
 */
import { z } from 'zod';

export const EVENTS_PATH = '/events';
export const EVENT_STREAM_TYPE = 'text/event-stream';
/** The name of the event that says which numbers are not told. All others are named for their kind. */
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

export type Told = ({ type: 'event' } & z.output<typeof event>) | ({ type: 'gap' } & z.output<typeof gap>);

export interface EventOptions {
  /** The number of the last event that is known; without it the stream begins with what happens from now on. */
  after?: number;
  /** Ends the loop, without an error. */
  signal?: AbortSignal;
}

/** One message of a stream, or its number alone. */
interface Message {
  id: string | null;
  name: string;
  data: string;
}

/** Opens a stream after that number (null: from now on). Rejects with the refusal, or with what says that it can't be reached. */
export type OpenStream = (
  after: number | null,
  signal: AbortSignal | undefined,
) => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;

export interface ReaderNeeds {
  open: OpenStream;
  /** Seconds after which an attempt that failed may be made again; null: it is refused for good. */
  retryAfterS: (error: unknown) => number | null;
  silenceMs?: number;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
/** The server says something every 15 s: three times that in silence is a connection that was lost without a word. */
const SILENCE_MS = 45_000;

/** Every event once and in order, over as many connections as it takes. What the first attempt is refused with is thrown. */
export async function* readEvents({ after, signal }: EventOptions, needs: ReaderNeeds): AsyncGenerator<Told, void> {
  let last = after ?? null;
  let waitMs = FIRST_WAIT_MS;
  for (let connected = false; !signal?.aborted;) {
    try {
      const stream = await needs.open(last, signal);
      connected = true;
      for await (const message of messagesOf(stream, needs.silenceMs ?? SILENCE_MS)) {
        waitMs = FIRST_WAIT_MS;
        const told = toldBy(message);
        const number = Number(message.id ?? Number.NaN);
        const isOld = told?.type === 'event' && last !== null && told.seq <= last;
        // Before it is handed out: whoever breaks off and begins anew goes on from what it has.
        if (Number.isSafeInteger(number) && !isOld) last = number;
        if (told && !isOld) yield told;
      }
    } catch (error) {
      if (signal?.aborted) return;
      const againS = needs.retryAfterS(error);
      if (!connected || againS === null) throw error;
      waitMs = Math.max(waitMs, againS * 1000);
    }
    await pause(waitMs, signal);
    waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2);
  }
}

function toldBy({ name, data }: Message): Told | null {
  if (data === '') return null;
  const json: unknown = JSON.parse(data);
  if (name === GAP_EVENT) return { type: 'gap', ...gap.parse(json) };
  return { type: 'event', ...event.parse(json) };
}

/** Ends when the stream does, or is silent for too long. */
async function* messagesOf(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  silenceMs: number,
): AsyncGenerator<Message, void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      // What is read ends with its reader, which rejects nothing that waits.
      const timer = setTimeout(() => void reader.cancel().catch(() => {}), silenceMs);
      const piece = await reader.read().finally(() => clearTimeout(timer));
      if (piece.done) return;
      text += decoder.decode(piece.value, { stream: true });
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        yield messageOf(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Of one block of lines as this server writes them: `name: value`, each once. */
function messageOf(block: string): Message {
  const fields = new Map(
    block.split('\n').map((line): [string, string] => {
      const colon = line.indexOf(': ');
      return colon < 1 ? ['', line] : [line.slice(0, colon), line.slice(colon + 2)];
    }),
  );
  return { id: fields.get('id') ?? null, name: fields.get('event') ?? '', data: fields.get('data') ?? '' };
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done);
  });
}
