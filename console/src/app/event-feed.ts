/** The account's events, over one connection that reconnects. Runs in a worker or in a page. */
import { EVENT_STREAM_TYPE, readStream } from '../../../src/contract/server-sent.ts';

import { base } from './base.ts';

export interface FeedEvent {
  kind: string;
  subjectId: string;
  atUnixMs: number;
  data: Record<string, unknown>;
}

export type FeedMessage =
  | { type: 'event'; event: FeedEvent }
  /** Events were missed, or may have been. */
  | { type: 'missed' }
  /** `lostAtMs` null: connected. */
  | { type: 'connection'; lostAtMs: number | null }
  | { type: 'loggedOut' };

const EVENTS_URL = `${base}/api/events`;
const RETRY_MS = 2_000;

class Refused extends Error {
  readonly status: number;
  constructor(status: number) {
    super(`the event stream was refused with ${status}`);
    this.status = status;
  }
}

/** Sends messages until the login ends. */
export async function followEvents(send: (message: FeedMessage) => void): Promise<void> {
  let lostAtMs: number | null = null;
  const lose = (): void => {
    lostAtMs ??= Date.now();
    send({ type: 'connection', lostAtMs });
  };
  const open = async (after: string | null): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> => {
    const headers = { accept: EVENT_STREAM_TYPE, ...(after === null ? {} : { 'last-event-id': after }) };
    const response = await fetch(EVENTS_URL, { headers, credentials: 'same-origin' }).catch((error: unknown) => {
      lose();
      throw error;
    });
    if (!response.ok || response.body === null) {
      if (response.status !== 401) lose();
      throw new Refused(response.status);
    }
    lostAtMs = null;
    send({ type: 'connection', lostAtMs });
    if (after === null) send({ type: 'missed' });
    return response.body.pipeThrough(new TransformStream({ flush: lose }));
  };
  const isOver = (error: unknown): boolean => error instanceof Refused && error.status === 401;
  const stream = () =>
    readStream<FeedMessage>(
      { after: null, signal: undefined },
      { open, retryAfterS: (error) => (isOver(error) ? null : 0), parse },
    );
  for (;;) {
    try {
      for await (const message of stream()) send(message);
    } catch (error) {
      if (isOver(error)) return send({ type: 'loggedOut' });
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function parse({ name, data }: { name: string; data: string }): FeedMessage | null {
  if (data === '') return null;
  if (name === 'gap') return { type: 'missed' };
  // The API's own event.
  const event: FeedEvent = JSON.parse(data);
  return { type: 'event', event };
}
