import type { Duplex } from 'node:stream';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { InstanceNetwork } from '../../../engines/contract.ts';
import type { Forwarding, SshBackend } from './gateway-types.ts';

interface Joined {
  network: Promise<InstanceNetwork>;
  connections: number;
}

/** Connections of an instance share one joined network, a process of the host. */
export function makeLoopbackDial({ joinNetwork }: Pick<SshBackend, 'joinNetwork'>): Forwarding['dialLoopback'] {
  const joined = new Map<InstanceId, Joined>();

  function join(id: InstanceId, signal: AbortSignal): Joined {
    const known = joined.get(id);
    if (known) return known;
    const made: Joined = { network: joinNetwork(id, signal), connections: 0 };
    const forget = (): void => {
      if (joined.get(id) === made) joined.delete(id);
    };
    made.network.then((network) => network.ended, forget).then(forget, forget);
    joined.set(id, made);
    return made;
  }

  return async (id, port, signal) => {
    const made = join(id, signal);
    made.connections += 1;
    const release = (): void => {
      made.connections -= 1;
      if (made.connections > 0) return;
      if (joined.get(id) === made) joined.delete(id);
      made.network.then(
        (network) => network.close(),
        () => {},
      );
    };
    try {
      const stream = await connectEither(await made.network, port, signal);
      stream.once('close', release);
      return stream;
    } catch (error) {
      release();
      throw error;
    }
  };
}

async function connectEither(network: InstanceNetwork, port: number, signal: AbortSignal): Promise<Duplex> {
  try {
    return await network.connect({ host: '127.0.0.1', port }, signal);
  } catch (error) {
    if (!(error instanceof EngineFault) || error.kind !== 'busy') throw error;
    // Most instances have no IPv6: that ::1 is no address there says nothing of the program.
    return network.connect({ host: '::1', port }, signal).catch(() => {
      throw error;
    });
  }
}
