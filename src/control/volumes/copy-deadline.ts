/** Copies of root disks, which take as long as they take, and what to make of one that takes too long. */
import { EngineFault } from '../../domain/engine-fault.ts';
import type { Engine } from '../../engines/contract.ts';
import type { Time } from '../base/time.ts';

const PROBE_DEADLINE_MS = 5_000;

interface EngineCall {
  engine: Pick<Engine, 'probe'>;
  time: Pick<Time, 'deadline'>;
  /** Of the pass. */
  signal: AbortSignal;
}

/** Whether the engine is there now, after a call that it did not answer. */
export async function engineAnswers({ engine, time, signal }: EngineCall): Promise<boolean> {
  try {
    await engine.probe(AbortSignal.any([signal, time.deadline(PROBE_DEADLINE_MS)]));
    return true;
  } catch {
    return false;
  }
}

/**
 * A copy of a root disk under its deadline. The call that is given up then ends as `unreachable`, which is waited out for ever; of an
 * engine that answers, it was the copy that took too long, and that is a fault of which there may only be so many.
 */
export async function withCopyDeadline<T>(
  asking: EngineCall,
  deadlineMs: number,
  copy: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const overdue = asking.time.deadline(deadlineMs);
  try {
    return await copy(AbortSignal.any([asking.signal, overdue]));
  } catch (error) {
    const tooLong = error instanceof EngineFault && error.kind === 'unreachable' && overdue.aborted;
    if (!tooLong || asking.signal.aborted || !(await engineAnswers(asking))) throw error;
    const text = `the root disk was not copied within ${Math.round(deadlineMs / 1000)} s`;
    throw new EngineFault('busy', text, { retry: true, cause: error });
  }
}
