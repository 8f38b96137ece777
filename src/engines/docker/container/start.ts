import { EngineFault } from '../../../domain/engine-fault.ts';
import type { EngineSpec } from '../../contract.ts';
import { networkName } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import { isContainerGone, isNetworkGone, isUntracked, portTakenText, statusOf, takenPort } from '../client/faults.ts';
import type { Networks } from '../network/networks.ts';
import { removeContainer } from './container-calls.ts';

/** `hasRun`: the root disk may hold work, so the container is never replaced. */
export type StartContainer = (
  id: string,
  spec: EngineSpec,
  options: { hasRun: boolean },
  signal: AbortSignal,
) => Promise<void>;

export function makeStart(deps: { client: Client; installation: string; networks: Networks }): StartContainer {
  const { client, installation, networks } = deps;
  const { docker, call } = client;

  /** Joins the restored network: a container keeps the id of the network it was created with. */
  async function rejoin(id: string, network: string, signal: AbortSignal): Promise<void> {
    const leave = { Container: id, Force: true, abortSignal: signal };
    // Fails where it is in none.
    await call(signal, () => docker.getNetwork(network).disconnect(leave)).catch(() => {});
    const join = { Container: id, abortSignal: signal };
    await call(signal, () => docker.getNetwork(network).connect(join));
  }

  /** Removes an untracked container for a retry; after a run only the operator can do so. */
  async function untrackedFault(id: string, hasRun: boolean, signal: AbortSignal): Promise<EngineFault> {
    if (!hasRun) {
      await removeContainer(client, id, signal);
      return removedMeanwhile();
    }
    const text = `the engine was killed and has lost sight of a process of container ${id.slice(0, 12)}; the operator has to end it, or to restart the host`;
    return new EngineFault('unreachable', text, { retry: true });
  }

  return async (id, spec, { hasRun }, signal) => {
    const start = (): Promise<unknown> => call(signal, (abortSignal) => docker.getContainer(id).start({ abortSignal }));
    try {
      await start().catch(async (error: unknown) => {
        if (!isNetworkGone(error)) throw error;
        await networks.restore(spec.ownerId, signal);
        await rejoin(id, networkName(installation, spec.ownerId), signal);
        return start();
      });
    } catch (error) {
      if (statusOf(error) === 304) return;
      if (isContainerGone(error)) throw removedMeanwhile();
      if (isUntracked(error)) throw await untrackedFault(id, hasRun, signal);
      throw portFault(error, spec, hasRun) ?? error;
    }
  };
}

function portFault(error: unknown, spec: EngineSpec, hasRun: boolean): EngineFault | null {
  const nodePorts = spec.nodePorts.map(({ nodePort }) => nodePort);
  const taken = takenPort(error, nodePorts);
  if (taken === null) return null;
  const text = portTakenText(taken, error);
  const details = { retry: true, reason: 'portTaken', cause: error } as const;
  if (!hasRun) return new EngineFault('busy', text, { ...details, takenNodePort: taken });
  const explanation = 'an instance that has run keeps its ports, and starts when the port is free';
  return new EngineFault('busy', `${text}; ${explanation}`, details);
}

export const removedMeanwhile = (): EngineFault =>
  new EngineFault('busy', 'the container went away while it was started; it is tried again', { retry: true });
