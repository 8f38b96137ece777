/** Docker up to 23 sets `OOMKilled` only by chance; its event history (last 256) has the event. */
import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import type { Client } from '../client/client.ts';
import { startedAtMs } from './observation.ts';
import { linesOf } from '../client/streams.ts';

const KILLED_EXIT_CODE = 128 + 9;
/** Maximum delay of the event after the exit. The query waits that long, once per killed run. */
const SETTLED_S = 0.25;

const oomEvent = z.object({ Action: z.literal('oom') });

export type OutOfMemory = (info: ContainerInspectInfo, signal: AbortSignal) => Promise<boolean>;

export function makeOutOfMemory(client: Client): OutOfMemory {
  const verdicts = new Map<string, { startedAtMs: number; verdict: boolean }>();
  return async ({ Id, State }, signal) => {
    if (State.Running) return false;
    if (State.OOMKilled || State.ExitCode !== KILLED_EXIT_CODE) return State.OOMKilled;
    const started = startedAtMs(State);
    const cached = verdicts.get(Id);
    if (cached?.startedAtMs === started) return cached.verdict;
    const finishedS = Date.parse(State.FinishedAt) / 1000;
    const verdict = await client.call(signal, async (abortSignal) => {
      const filters = { type: ['container' as const], container: [Id], event: ['oom'] };
      const period = { since: Math.floor(started / 1000), until: finishedS + SETTLED_S };
      const stream = await client.docker.getEvents({ ...period, filters, abortSignal });
      for await (const line of linesOf(stream)) if (oomEvent.safeParse(JSON.parse(line)).success) return true;
      return false;
    });
    if (verdicts.size > 1000) verdicts.clear();
    verdicts.set(Id, { startedAtMs: started, verdict });
    return verdict;
  };
}
