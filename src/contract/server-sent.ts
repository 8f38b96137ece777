/** Reader of Server-Sent Events (WHATWG HTML, 9.2) that reconnects. */

export const EVENT_STREAM_TYPE = 'text/event-stream';

/** Message of a stream, or an id alone. */
export interface Message {
  id: string | null;
  name: string;
  data: string;
}

export interface ReadStreamDeps<Item> {
  /** Opens a stream after a cursor; null: from the start. Rejects with the refusal or the fault. */
  open: (after: string | null, signal: AbortSignal | undefined) => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;
  /** Seconds before a retry; null: no retry. */
  retryAfterS: (error: unknown) => number | null;
  /** Parses a message; null: no content. `last` is the previous id. */
  parse: (message: Message, last: string | null) => Item | 'known' | null;
  /** Nothing comes after it. */
  isEnd?: (item: Item) => boolean;
  silenceMs?: number;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
/** Three missed heartbeats of 15 s mean a lost connection. */
const SILENCE_MS = 45_000;

/** Reconnects. Throws the refusal of the first attempt. An abort ends without an error. */
export async function* readStream<Item>(
  { after, signal }: { after: string | null; signal: AbortSignal | undefined },
  deps: ReadStreamDeps<Item>,
): AsyncGenerator<Item, void> {
  let last = after;
  let waitMs = FIRST_WAIT_MS;
  for (let connected = false; !signal?.aborted;) {
    try {
      const stream = await deps.open(last, signal);
      connected = true;
      for await (const message of readMessages(stream, deps.silenceMs ?? SILENCE_MS)) {
        waitMs = FIRST_WAIT_MS;
        const item = deps.parse(message, last);
        if (item === 'known') continue;
        // Before the yield, so that a restart continues after this message.
        last = message.id ?? last;
        if (item === null) continue;
        yield item;
        if (deps.isEnd?.(item)) return;
      }
    } catch (error) {
      if (signal?.aborted) return;
      const againS = deps.retryAfterS(error);
      if (!connected || againS === null) throw error;
      waitMs = Math.max(waitMs, againS * 1000);
    }
    await pause(waitMs, signal);
    waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2);
  }
}

/** Ends when the stream does, or is silent for too long. */
async function* readMessages(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  silenceMs: number,
): AsyncGenerator<Message, void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      // Cancelling the reader ends a pending read without an error.
      const timer = setTimeout(() => void reader.cancel().catch(() => {}), silenceMs);
      const piece = await reader.read().finally(() => clearTimeout(timer));
      if (piece.done) return;
      text += decoder.decode(piece.value, { stream: true });
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        yield parseMessage(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Parses a block of `name: value` lines, each name once. */
function parseMessage(block: string): Message {
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
