/** Event stream, reopened with back-off. Events in between are lost, so subscribers also poll. */
import { retry } from '../../../async/retry.ts';
import { z } from 'zod';
import { isInstanceId, type InstanceId } from '../../../domain/kernel/ids.ts';
import { labels } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { linesOf } from '../../../docker/streams.ts';

const event = z.object({
  Action: z.string(),
  Actor: z.object({ Attributes: z.record(z.string(), z.string()).nullish() }),
});

/** Events that change no state of the container, such as every exec. */
const ignored = /^(exec_|attach|top|resize|health_status|copy|export|archive)/;

const stopSignals = new Set(['15', '9']);

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;

export interface WatchOptions {
  client: DockerClient;
  installation: string;
  onHint: (id: InstanceId, more: { isStopping: boolean }) => void;
  onLive: (live: boolean) => void;
  onLost: (error: unknown, pauseMs: number) => void;
  signal: AbortSignal;
}

export async function watchEvents(options: WatchOptions): Promise<void> {
  const { signal, onLive, onLost } = options;
  const watch = async (onOpen: () => void): Promise<never> => {
    try {
      await follow(options, onOpen);
      throw new Error('the engine ended the stream');
    } finally {
      onLive(false);
    }
  };
  await retry(watch, { signal, firstMs: FIRST_PAUSE_MS, maxMs: LONGEST_PAUSE_MS, onError: onLost });
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
    if (!parsed.success || ignored.test(parsed.data.Action)) continue;
    const id = parsed.data.Actor.Attributes?.[labels.id] ?? '';
    if (!isInstanceId(id)) continue;
    const { Action, Actor } = parsed.data;
    onHint(id, { isStopping: Action === 'kill' && stopSignals.has(Actor.Attributes?.['signal'] ?? '') });
  }
}
