/** Ports on which programs inside a running instance listen, for its owner. */
import { listenersOf, type Listener } from '../../../domain/access/listeners.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { Engine } from '../../../engines/contract.ts';
import { deadlineWithin, type Caller, type TaskDeps } from '../../kernel/ports.ts';
import { refusalOfFault, requireRunning } from './require-instance.ts';

export interface Listening {
  /** At most 1,000, by port. Throws `not_found`, `not_now`, and refusals of the engine. */
  list(caller: Caller, instanceId: string): Promise<Listener[]>;
}

const READ_MS = 10_000;
const MAX_LISTENERS = 1_000;

export const makeListening = (deps: Pick<TaskDeps, 'store' | 'regions' | 'time' | 'stopping'>): Listening => ({
  async list(caller, instanceId) {
    const { id, spec } = await requireRunning(deps.store, caller, instanceId);
    try {
      const tables = await readTables(deps.regions.of(spec.regionId).engine, id, deadlineWithin(deps, READ_MS));
      return listenersOf(tables, !spec.runImageCommand).slice(0, MAX_LISTENERS);
    } catch (error) {
      throw refusalOfFault(error);
    }
  },
});

async function readTables(engine: Engine, id: InstanceId, signal: AbortSignal): Promise<string> {
  const read = await engine.tcpTables?.(id, signal);
  if (read !== undefined && read !== null) return read;
  // Without IPv6 the second file is missing, and `cat` fails after printing the first.
  const { stdout } = await engine.exec(id, ['cat', '/proc/net/tcp', '/proc/net/tcp6'], signal);
  if (stdout.includes('local_address')) return stdout;
  const why = 'the region cannot see what listens in instances whose image has no "cat"';
  throw new EngineFault('rejected', why, { retry: false });
}
