import { stat } from 'node:fs/promises';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { EngineSpec } from '../../contract.ts';
import type { Client } from '../client/client.ts';
import { isImageGone, isNameTaken, isNetworkGone } from '../client/faults.ts';
import type { HostFacts } from '../client/host.ts';
import type { Networks } from '../network/networks.ts';
import type { ControlFiles } from './control-files.ts';
import { createOptions } from './create-options.ts';
import type { DockerInside } from './docker-inside.ts';
import type { GpuAllocator } from './gpus.ts';
import type { Tools } from './tools.ts';

/** Returns the container's id; null: the name is taken. Requires the account's network in use. */
export type CreateContainer = (
  spec: EngineSpec,
  network: string,
  facts: HostFacts,
  signal: AbortSignal,
) => Promise<string | null>;

export function makeCreate(deps: {
  client: Client;
  installation: string;
  networks: Networks;
  files: ControlFiles;
  daemons: DockerInside;
  tools: Tools;
  gpus: GpuAllocator;
  onImageGone: (ref: string) => void;
}): CreateContainer {
  const { client, installation, networks, files, daemons, tools, gpus } = deps;

  async function create(
    spec: EngineSpec,
    network: string,
    facts: HostFacts,
    signal: AbortSignal,
    mayRestore = true,
  ): Promise<string | null> {
    if (client.local) await rejectFiles(spec.mounts);
    const dockerSocketFolder = await daemons.prepare(spec, signal);
    const toolsFolder = await tools.folder();
    const controlFolder = files.folder(spec.id);
    const createWith = async (gpuIds: readonly string[]): Promise<string> => {
      const context = { installation, network, controlFolder, toolsFolder, dockerSocketFolder, gpuIds, host: facts };
      const request = createOptions(spec, context);
      const container = await client.call(signal, (abortSignal) =>
        client.docker.createContainer({ ...request, abortSignal }),
      );
      return container.id;
    };
    try {
      return await gpus.withChosen(spec.gpus, facts, signal, createWith);
    } catch (error) {
      if (isNameTaken(error)) return null;
      if (isImageGone(error)) deps.onImageGone(spec.imageRef);
      if (!mayRestore || !isNetworkGone(error)) throw error;
      await networks.restore(spec.ownerId, signal);
      return create(spec, network, facts, signal, false);
    }
  }

  return (spec, network, facts, signal) => create(spec, network, facts, signal);
}

/** Docker mounts a file silently where the image lacks the path; a missing folder is reported. */
async function rejectFiles(mounts: EngineSpec['mounts']): Promise<void> {
  for (const { source, target } of mounts) {
    const found = await stat(source).catch(() => null);
    if (found === null || found.isDirectory()) continue;
    const text = `what is to be mounted at ${target} is no folder on the host; the operator has to look at it`;
    throw new EngineFault('rejected', text, { retry: true, reason: 'badMount' });
  }
}
