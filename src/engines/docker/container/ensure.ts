/** Brings a container to run: create, start, or finish a half-done attempt (`containers.ts`). */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import type { ContainerCreateOptions, ContainerInspectInfo } from 'dockerode';
import type { EngineLog } from '../../engine-log.ts';
import { makeSemaphore, type Semaphore } from '../../../async/semaphore.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import type { EngineSpec } from '../../contract.ts';
import { containerName, dockerName, networkName } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import {
  abortFault,
  bundleInTheWay,
  faultOf,
  isContainerGone,
  isImageGone,
  hasNoSuchProcessor,
  isNameTaken,
  isNetworkGone,
  isUntracked,
  portTakenText,
  statusOf,
  takenPort,
} from '../../../docker/faults.ts';
import type { Host, HostFacts } from '../client/host-facts.ts';
import type { CardNodes } from '../cards/card-nodes.ts';
import { uuidOf } from '../cards/card-watch.ts';
import { makeWarnings } from '../host/warnings.ts';
import { keepTableEmpty } from '../network/own-table.ts';
import type { Networks } from '../network/networks.ts';
import { envOfImage, inspectContainer, pollPause, removeContainer } from './container-calls.ts';
import type { ControlFiles } from './control-files.ts';
import { createOptions, limitsOf, type CreateContext } from './create-options.ts';
import type { DockerInside } from './docker-inside.ts';
import { socketFolder } from './docker-inside-options.ts';
import type { IdMappedMounts } from './id-mapped-mounts.ts';
import { makeGpuAllocator, type GpuAllocator } from './gpus.ts';
import { giveMounts } from './give-mounts.ts';
import { generationOf, isOurs, isRemoving, isRunning, nodePortsOf, samePorts, startedAtMs } from './observation.ts';
import { listProcessors, type Processors } from './processors.ts';
import type { ShownSizes } from './shown-sizes.ts';
import { limitTerminals } from './terminal-limit.ts';
import type { Tools } from './tools.ts';
import { endProcesses, removeBundle } from './untracked.ts';

/** A tenth faster than two; bare containers, without networks, gain nothing (`bench/burst.ts`). */
const STARTS_PER_CORE = 4;
/** Rounds of creation, 50 ms apart, while an invisible container holds the name. */
const MAX_ROUNDS = 40;

export interface EnsureDeps {
  client: DockerClient;
  installation: string;
  host: Host;
  networks: Networks;
  files: ControlFiles;
  idMappedMounts: IdMappedMounts;
  sudo: boolean;
  daemons: DockerInside;
  tools: Tools;
  sizes: ShownSizes;
  processors: Processors;
  cardNodes: CardNodes;
  onImageGone: (ref: string) => void;
  log: Pick<EngineLog, 'warn'>;
}

interface Attempt {
  spec: EngineSpec;
  network: string;
  facts: HostFacts;
  signal: AbortSignal;
}

export function makeEnsure(deps: EnsureDeps): (spec: EngineSpec, signal: AbortSignal) => Promise<ContainerInspectInfo> {
  const { client, installation, host, networks, files, idMappedMounts, daemons, tools, sizes, processors, log } = deps;
  const [warnOfTerminals, warnOfTables] = [makeWarnings(log), makeWarnings(log)];
  const gpus = makeGpuAllocator(client, installation);
  const requestOf = makeRequest(deps);
  const create = makeCreate({ ...deps, gpus, requestOf });
  const start = makeStart(deps);
  let starts: Semaphore | undefined;

  /** Returns what an inspect found running, or the id of the started container. */
  async function createAndStart(attempt: Attempt): Promise<string | ContainerInspectInfo> {
    const { spec, signal } = attempt;
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const created = await create(attempt);
      if (created !== null) {
        await start(created, attempt, { hasRun: false });
        return created;
      }
      const info = await inspectContainer(client, containerName(spec.id), signal);
      if (info === null) {
        // Being removed, or created: an aborted create goes on in the engine, invisible at first.
        await pollPause(client, signal);
        continue;
      }
      if (!isOurs(info.Config.Labels, installation, spec.id)) {
        const text = `a container named ${containerName(spec.id)} is on the host and does not belong to this installation; ask the operator to remove it`;
        throw new EngineFault('rejected', text, { retry: false, reason: 'nameTaken' });
      }
      if (isRunning(info.State)) return info;
      const hasRun = startedAtMs(info.State) > 0;
      const portsFit = samePorts(nodePortsOf(info), spec.nodePorts);
      const isOfSpec = portsFit && generationOf(info.Config.Labels) === spec.generation;
      if (isRemoving(info.State) || (!hasRun && !isOfSpec)) {
        await removeContainer(client, info.Id, signal);
        continue;
      }
      if (!portsFit) {
        const has = nodePortsOf(info).map(({ nodePort }) => nodePort);
        const text = `an instance that ran before keeps its node ports (${has.join(', ')}); start the instance with these ports, or launch another`;
        throw new EngineFault('rejected', text, { retry: false });
      }
      await resume(info, hasRun, attempt);
      return info.Id;
    }
    throw removedMeanwhile();
  }

  async function resume(info: ContainerInspectInfo, hasRun: boolean, attempt: Attempt): Promise<void> {
    const { spec, facts, signal } = attempt;
    if (info.State.Paused) {
      const request = { abortSignal: signal };
      await client.call(signal, () => client.docker.getContainer(info.Id).unpause(request));
      return;
    }
    await gpus.checkFree(info, facts, signal, spec.withoutGpus);
    await updateLimits(info, attempt);
    await daemons.clear(spec, signal);
    await files.removeSockets(spec.id);
    await requestOf(attempt, { gpuIds: [], dockerSocketFolder: spec.docker && socketFolder(spec.docker.storage) });
    await start(info.Id, attempt, { hasRun });
  }

  /** Limits of the spec, and processors that fit the present load and host. All else stays. */
  async function updateLimits({ Id, HostConfig: has }: ContainerInspectInfo, attempt: Attempt): Promise<void> {
    const { spec, facts, signal } = attempt;
    const { Memory, MemorySwap, NanoCpus, PidsLimit } = limitsOf(spec, { diskRates: [] });
    const current = has.CpusetCpus ?? '';
    // An empty set means no change to Docker: all processors have to be named.
    const chosen = processors.choose(spec, facts, current);
    const CpusetCpus = current === '' ? chosen : chosen || listProcessors(facts.processors ?? []);
    const isSame = has.Memory === Memory && has.NanoCpus === NanoCpus && has.PidsLimit === PidsLimit;
    if (isSame && CpusetCpus === current) return;
    const request = { ...(isSame ? {} : { Memory, MemorySwap, NanoCpus, PidsLimit }), CpusetCpus, abortSignal: signal };
    await client.call(signal, () => client.docker.getContainer(Id).update(request));
  }

  async function ensure(spec: EngineSpec, facts: HostFacts, signal: AbortSignal): Promise<ContainerInspectInfo> {
    const permits = STARTS_PER_CORE * facts.cores;
    const semaphore = (starts ??= makeSemaphore(permits, { abortError: abortFault }));
    if (signal.aborted) throw faultOf(signal.reason);
    await files.write(spec.id, spec.files, signal);
    const found = await networks.use(spec.ownerId, signal, (network) =>
      semaphore.run(() => gpus.whileStarting(spec.id, () => createAndStart({ spec, network, facts, signal })), {
        signal,
      }),
    );
    const info = typeof found === 'string' ? await inspectContainer(client, found, signal) : found;
    if (info === null) throw removedMeanwhile();
    const finishStart = async (): Promise<unknown> => Promise.all([limitFurther(info, facts), sizes.show(info, spec)]);
    await Promise.all([daemons.ensure(spec, info, signal), typeof found === 'string' && finishStart()]);
    tools.prepare();
    return info;
  }

  /** Limits that the engine has no option for. */
  async function limitFurther(info: ContainerInspectInfo, { nsenter, isolation }: HostFacts): Promise<void> {
    if (nsenter === null) return;
    const terminals = limitTerminals(info).catch((error: unknown) =>
      warnOfTerminals(
        `an instance can take all terminals of this host: ${errorText(error)}; Linux 5.2 and perl are needed`,
      ),
    );
    const table = isolation.connectionLimit && keepTableEmpty(nsenter, info.NetworkSettings.SandboxKey);
    await Promise.all([
      terminals,
      Promise.resolve(table).catch((error: unknown) =>
        warnOfTables(`an instance can take kernel memory for its connections: ${errorText(error)}`),
      ),
    ]);
  }

  return async (spec, signal) => {
    const facts = await host.facts(signal);
    try {
      return await ensure(spec, facts, signal);
    } finally {
      await idMappedMounts.close(containerName(spec.id), dockerName(spec.id));
    }
  };
}

type RequestOf = ReturnType<typeof makeRequest>;

/** Makes the folders that the container mounts, and its create request. */
function makeRequest({ installation, files, idMappedMounts, sudo, tools, processors }: EnsureDeps) {
  return async (
    { spec, network, facts }: Attempt,
    grants: Pick<CreateContext, 'gpuIds' | 'gpuNodes' | 'imageEnv' | 'dockerSocketFolder'>,
  ): Promise<ContainerCreateOptions> => {
    const toolsFolder = await tools.folder();
    const controlFolder = files.source(spec.id);
    const context = {
      installation,
      network,
      controlFolder,
      toolsFolder,
      hasSetpriv: spec.imageCommand !== undefined && (await tools.hasSetpriv()),
      sudo,
      processors: processors.choose(spec, facts),
      host: facts,
      ...grants,
    };
    return idMappedMounts.open(createOptions(spec, context), facts.userNamespace);
  };
}

/** Creates the container; returns its id, or null when the name is taken. */
function makeCreate(deps: EnsureDeps & { gpus: GpuAllocator; requestOf: RequestOf }) {
  const { client, networks, daemons, gpus, cardNodes, processors, requestOf, log } = deps;

  return async function create(attempt: Attempt, mayRestore = true): Promise<string | null> {
    const { spec, facts, signal } = attempt;
    if (spec.mustExist === true) {
      if ((await inspectContainer(client, containerName(spec.id), signal)) === null) throw removedMeanwhile();
      return null;
    }
    if (client.local) await rejectFiles(spec.mounts);
    else await rejectMissingVolumes(client, spec.mounts, signal);
    const dockerSocketFolder = await daemons.prepare(spec, signal);
    try {
      // Beside the list of who has cards: Docker 29 takes 10 ms for each.
      const reading = facts.gpuDriver === null ? Promise.resolve([]) : envOfImage(client, spec.imageRef, signal);
      reading.catch(() => {});
      return await gpus.withChosen(spec, facts, signal, async (gpuIds) => {
        const uuids = facts.gpus.filter(({ id }) => gpuIds.includes(id)).flatMap((gpu) => uuidOf(gpu) ?? []);
        const gpuNodes = facts.gpuDriver === 'nvidia' && uuids.length > 0 ? await cardNodes.forContainer(uuids) : [];
        const imageEnv = await reading;
        const options = await requestOf(attempt, { gpuIds, gpuNodes, imageEnv, dockerSocketFolder });
        const request = { ...options, abortSignal: signal };
        return (await client.call(signal, () => client.docker.createContainer(request))).id;
      });
    } catch (error) {
      if (isNameTaken(error)) return null;
      if (isImageGone(error)) deps.onImageGone(spec.imageRef);
      if (mayRestore && hasNoSuchProcessor(error)) {
        processors.refuse(facts);
        log.warn({ err: error }, 'instances run on all processors, until the engine starts again');
        return create(attempt, false);
      }
      if (!mayRestore || !isNetworkGone(error)) throw error;
      await networks.restore(spec.ownerId, signal);
      return create(attempt, false);
    }
  };
}

/** Docker mounts a file silently where the image lacks the path; a missing folder is reported. */
async function rejectFiles(mounts: EngineSpec['mounts']): Promise<void> {
  for (const { source, target } of mounts) {
    const found = await stat(source).catch(() => null);
    if (found === null || found.isDirectory()) continue;
    const text = `the mount at ${target} is not a folder on the host; ask the operator to check the folder`;
    throw new EngineFault('rejected', text, { retry: true, reason: 'badMount' });
  }
}

/** Docker makes a missing volume, empty, in place of a disk. */
async function rejectMissingVolumes(
  { docker, call }: DockerClient,
  mounts: EngineSpec['mounts'],
  signal: AbortSignal,
): Promise<void> {
  for (const { source, target } of mounts) {
    try {
      await call(signal, (abortSignal) => docker.getVolume(source).inspect({ abortSignal }));
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
      const text = `the disk to mount at ${target} is no volume of the engine; ask the operator to check its volumes`;
      throw new EngineFault('rejected', text, { retry: true, reason: 'badMount', cause: error });
    }
  }
}

/** `hasRun`: the root disk may hold work, so the container is never replaced. */
function makeStart({ client, installation, networks }: EnsureDeps) {
  const { docker, call } = client;

  /** Joins the restored network: a container keeps the id of the network it was created with. */
  async function rejoin(id: string, network: string, signal: AbortSignal): Promise<void> {
    const leave = { Container: id, Force: true, abortSignal: signal };
    // Fails where it is in none.
    await call(signal, () => docker.getNetwork(network).disconnect(leave)).catch(() => {});
    const join = { Container: id, abortSignal: signal };
    await call(signal, () => docker.getNetwork(network).connect(join));
  }

  /**
   * Ends and removes what an engine that was killed left of an earlier start, and removes a
   * container that has not run, for a retry.
   */
  async function untrackedFault(
    id: string,
    { bundle, hasRun, signal }: { bundle: string | null; hasRun: boolean; signal: AbortSignal },
  ): Promise<EngineFault> {
    const info = await inspectContainer(client, id, signal);
    const mayClear = client.local && info?.State.Running === false;
    const ended = mayClear ? await endProcesses(info.Id) : 0;
    const isCleared =
      bundle === null ? ended > 0 : mayClear && basename(bundle) === info.Id && (await removeBundle(bundle));
    if (!hasRun) {
      await removeContainer(client, id, signal);
      return removedMeanwhile();
    }
    const of = `container ${id.slice(0, 12)}`;
    const { left, done, remedy } =
      bundle === null
        ? { left: `no longer tracks a process of ${of}`, done: 'ended the process', remedy: 'kill the process' }
        : { left: `left a folder of ${of}`, done: 'removed the folder', remedy: `remove ${bundle}` };
    const text = `the engine was killed and ${left}`;
    if (isCleared) return new EngineFault('busy', `${text}; Berth ${done}, and retries`, { retry: true });
    return new EngineFault('unreachable', `${text}; ask the operator to ${remedy}, or to restart the host`, {
      retry: true,
    });
  }

  return async (id: string, { spec, signal }: Attempt, { hasRun }: { hasRun: boolean }): Promise<void> => {
    const start = (): Promise<unknown> => call(signal, (abortSignal) => docker.getContainer(id).start({ abortSignal }));
    try {
      if (!hasRun && spec.imageCommand !== undefined) await giveMounts(client, id, writableTargets(spec), signal);
      await start().catch(async (error: unknown) => {
        if (!isNetworkGone(error)) throw error;
        await networks.restore(spec.ownerId, signal);
        await rejoin(id, networkName(installation, spec.ownerId), signal);
        return start();
      });
    } catch (error) {
      if (statusOf(error) === 304) return;
      if (isContainerGone(error)) throw removedMeanwhile();
      const bundle = bundleInTheWay(error);
      if (bundle !== null || isUntracked(error)) throw await untrackedFault(id, { bundle, hasRun, signal });
      throw portFault(error, spec, hasRun) ?? error;
    }
  };
}

const writableTargets = ({ mounts }: EngineSpec): string[] =>
  mounts.filter(({ readOnly }) => !readOnly).map(({ target }) => target);

function portFault(error: unknown, spec: EngineSpec, hasRun: boolean): EngineFault | null {
  const nodePorts = spec.nodePorts.map(({ nodePort }) => nodePort);
  const taken = takenPort(error, nodePorts);
  if (taken === null) return null;
  const text = portTakenText(taken, error);
  const details = { retry: true, reason: 'portTaken', cause: error } as const;
  if (!hasRun) return new EngineFault('busy', text, { ...details, takenNodePort: taken });
  const explanation = 'an instance that ran before keeps its ports, and starts when the port is free';
  return new EngineFault('busy', `${text}; ${explanation}`, details);
}

const removedMeanwhile = (): EngineFault =>
  new EngineFault('busy', 'the container was removed during its start; Berth retries', { retry: true });
