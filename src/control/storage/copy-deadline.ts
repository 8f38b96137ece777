import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { Engine } from '../../engines/contract.ts';
import type { Time } from '../kernel/ports.ts';

const PROBE_DEADLINE_MS = 5_000;

interface EngineCall {
  engine: Pick<Engine, 'probe'>;
  time: Pick<Time, 'deadline'>;
  signal: AbortSignal;
}

export async function engineAnswers({ engine, time, signal }: EngineCall): Promise<boolean> {
  try {
    await engine.probe(AbortSignal.any([signal, time.deadline(PROBE_DEADLINE_MS)]));
    return true;
  } catch {
    return false;
  }
}

/** A timed-out copy on an engine that answers becomes `busy`, a failed attempt, not an outage. */
export async function withCopyDeadline<T>(
  call: EngineCall,
  deadlineMs: number,
  copy: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = call.time.deadline(deadlineMs);
  try {
    return await copy(AbortSignal.any([call.signal, deadline]));
  } catch (error) {
    const timedOut = error instanceof EngineFault && error.kind === 'unreachable' && deadline.aborted;
    if (!timedOut || call.signal.aborted || !(await engineAnswers(call))) throw error;
    const text = `the root disk was not copied within ${Math.round(deadlineMs / 1000)} s`;
    throw new EngineFault('busy', text, { retry: true, cause: error });
  }
}
