/**
 * The engine's stream of events, as hints. It breaks when the engine restarts, and then is opened again with back-off; what
 * happened meanwhile is lost, which a hint may be: whoever watches also looks by itself from time to time.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { isInstanceId, type InstanceId } from '../../../domain/ids.ts';
import { labels } from '../../labels.ts';
import type { Client } from './client.ts';
import { linesOf } from '../exec/streams.ts';

const event = z.object({
  Action: z.string(),
  Actor: z.object({ Attributes: z.record(z.string(), z.string()).nullish() }),
});

/** Of what goes on inside, not of the container's state; an exec a second would be a hint a second. */
const ofNoInterest = /^(exec_|attach|top|resize|health_status|copy|export|archive)/;

/** By their numbers: what a halt sends, and what it sends last. */
const ending = new Set(['15', '9']);

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;

export interface WatchOptions {
  client: Client;
  installation: string;
  onHint: (id: InstanceId, more: { toldToEnd: boolean }) => void;
  /** Whether what happens is heard of from now on. */
  onLive: (live: boolean) => void;
  onLost: (error: unknown, pauseMs: number) => void;
  signal: AbortSignal;
}

/** Ends, without an error, when the signal fires. */
export async function watchEvents(options: WatchOptions): Promise<void> {
  const { signal, onLive } = options;
  let pauseMs = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    try {
      await follow(options, () => (pauseMs = FIRST_PAUSE_MS));
      if (!signal.aborted) options.onLost(new Error('the engine ended the stream'), pauseMs);
    } catch (error) {
      if (!signal.aborted) options.onLost(error, pauseMs);
    } finally {
      onLive(false);
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
    pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
  }
}

async function follow(
  { client, installation, onHint, onLive, signal }: WatchOptions,
  onOpen: () => void,
): Promise<void> {
  const filters = { type: ['container' as const], label: [`${labels.installation}=${installation}`] };
  const stream = await client.call(signal, (abortSignal) => client.docker.getEvents({ filters, abortSignal }));
  onOpen();
  onLive(true);
  for await (const line of linesOf(stream)) {
    const parsed = event.safeParse(JSON.parse(line));
    if (!parsed.success || ofNoInterest.test(parsed.data.Action)) continue;
    const id = parsed.data.Actor.Attributes?.[labels.id] ?? '';
    if (!isInstanceId(id)) continue;
    const { Action, Actor } = parsed.data;
    onHint(id, { toldToEnd: Action === 'kill' && ending.has(Actor.Attributes?.['signal'] ?? '') });
  }
}
