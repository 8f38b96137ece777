import type { Duplex } from 'node:stream';
import type { Forwarding } from '../../control/index.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { Dialled } from './instance-pools.ts';

type Dials = Pick<Forwarding, 'dial' | 'dialLoopback'>;

export const isBusy = (error: unknown): boolean => error instanceof EngineFault && error.kind === 'busy';

export async function dialPort(
  { dial, dialLoopback }: Dials,
  { instanceId, port, opensLoopback }: Dialled,
  signal: AbortSignal,
): Promise<Duplex> {
  try {
    return await dial(instanceId, port, signal);
  } catch (error) {
    if (!opensLoopback || !isBusy(error)) throw error;
    return dialLoopback(instanceId, port, signal);
  }
}

const PROBE_MS = 3_000;

/** Never rejects. */
export async function listensOnLoopback({ dialLoopback }: Dials, to: Omit<Dialled, 'opensLoopback'>): Promise<boolean> {
  try {
    (await dialLoopback(to.instanceId, to.port, AbortSignal.timeout(PROBE_MS))).destroy();
    return true;
  } catch {
    return false;
  }
}
