/**
 * Whether a run was ended for want of memory. Docker up to 23 says so in an inspect only if it hears of that before it hears of
 * the exit, which is a matter of luck; the event is in its history all the same (the last 256 of them).
 */
import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import type { Client } from '../client/client.ts';
import { startedAtMs } from './observation.ts';
import { linesOf } from '../exec/streams.ts';

const KILLED = 128 + 9;
/** How long after the exit the event may come, by the engine's clock. Until then the answer waits, once for each such run. */
const SETTLED_S = 0.25;

const oomEvent = z.object({ Action: z.literal('oom') });

export type OutOfMemory = (info: ContainerInspectInfo, signal: AbortSignal) => Promise<boolean>;

export function makeOutOfMemory(client: Client): OutOfMemory {
  /** Verdicts by container, each for the run that started then. */
  const judged = new Map<string, { startedAtMs: number; verdict: boolean }>();
  return async ({ Id, State }, signal) => {
    if (State.Running) return false;
    if (State.OOMKilled || State.ExitCode !== KILLED) return State.OOMKilled;
    const started = startedAtMs(State);
    const known = judged.get(Id);
    if (known?.startedAtMs === started) return known.verdict;
    const finishedS = Date.parse(State.FinishedAt) / 1000;
    const verdict = await client.call(signal, async (abortSignal) => {
      const filters = { type: ['container' as const], container: [Id], event: ['oom'] };
      const period = { since: Math.floor(started / 1000), until: finishedS + SETTLED_S };
      const stream = await client.docker.getEvents({ ...period, filters, abortSignal });
      for await (const line of linesOf(stream)) if (oomEvent.safeParse(JSON.parse(line)).success) return true;
      return false;
    });
    if (judged.size > 1000) judged.clear();
    judged.set(Id, { startedAtMs: started, verdict });
    return verdict;
  };
}
