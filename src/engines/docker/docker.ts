/**
 * # The Docker engine
 *
 * Driver for Docker Engine 20.10 and newer, and for Podman through its Docker-compatible API. A
 * driver decides nothing: it executes, and reports the state; an unreadable state is unknown, never
 * absent.
 *
 * An engine on another host is driven by its API alone. What takes this machine's folders, kernel
 * or packet filter is off there, with a reason in the capabilities (`DockerClient.local`). Control
 * files are in a volume, and connections to instances are relayed.
 *
 * - `client/`: connection, faults from the engine's answers, host facts, event stream, stream
 *   formats.
 * - `cards/`: readings of the host's GPUs.
 * - `container/`: life of an instance's container (begin with `containers.ts`), create options,
 *   control files, observation, the list of owned objects, tools for every image, Docker daemons of
 *   instances.
 * - `network/`: accounts' networks and packet filter, dialling, joining a network, sockets inside.
 * - `image/`: pulls, pushes, removal, saved root disks, images built from recipes.
 * - `exec/`: commands inside, their streams and signals; logs.
 * - `usage/`: CPU, memory, network, disk and GPU readings.
 * - `host/`: limits of the kernel, and the control group of all instances.
 */
import { join } from 'node:path';
import type { ContainerInspectInfo } from 'dockerode';
import type { EngineLog } from '../engine-log.ts';
import { isInstanceId, type InstanceId } from '../../domain/kernel/ids.ts';
import { EngineFault, isEngineAway } from '../../domain/regions/engine-fault.ts';
import { faultOf } from '../../docker/faults.ts';
import { reasonText } from '../../domain/kernel/unknown-error.ts';
import type { Engine, Probe } from '../contract.ts';
import { connectHere, dial, makeAddressCache, type Connect } from './network/addresses.ts';
import { makeDockerClient, type DockerClient, type Endpoint } from '../../docker/docker-client.ts';
import type { EnsureImage } from '../../docker/helper-container.ts';
import { makeContainers } from './container/containers.ts';
import { makeControlFiles, type ControlFiles } from './container/control-files.ts';
import { makeControlVolumes } from './container/control-volumes.ts';
import { makeDockerInside, type DockerInsideConfig } from './container/docker-inside.ts';
import { makeCardNodes, type CardPlaces } from './cards/card-nodes.ts';
import { makeCardWatch } from './cards/card-watch.ts';
import { smiHere, smiHereOrThere, smiThere } from './cards/smi.ts';
import { makeRunEnds } from './container/run-ends.ts';
import { makeHost, NO_JOINS, NO_SOCKETS, NOWHERE, type Host, type SizesConfig } from './client/host-facts.ts';
import { idMappedFolder, makeIdMappedMounts } from './container/id-mapped-mounts.ts';
import { makeIsolation, type EnsureFirewall, type IsolationConfig } from './host/isolation.ts';
import { makeDescribeImage } from './image/descriptions.ts';
import { makeDockerImages, type BuildLocalImage } from './image/images.ts';
import { openExec, runCommand, type ExecOptions } from './exec/exec.ts';
import { openInsideSocket } from './network/inside-sockets.ts';
import { openLog, readLog } from './exec/logs.ts';
import { makeEgress } from './network/egress.ts';
import { makeFirewall } from './network/firewall.ts';
import type { LinkLocal } from './network/firewall-rules.ts';
import { makeSpareProcesses } from './exec/spare-processes.ts';
import { joinNetwork } from './network/joins.ts';
import { readTcpTables } from './network/tcp-tables.ts';
import { makeRelay } from './network/relay.ts';
import { makeNetworks } from './network/networks.ts';
import { makeInventory } from './container/inventory.ts';
import { makeSaves } from './image/saves.ts';
import { defaultPool, type NetworkPool } from './network/subnets.ts';
import { makeTools, type ToolsConfig } from './container/tools.ts';
import { makeProcessors } from './container/processors.ts';
import { makeShownSizes } from './container/shown-sizes.ts';
import { rootDiskSpace } from './usage/root-disk.ts';
import { makeReadGpus } from './usage/gpus.ts';
import { makeUsage } from './usage/usage.ts';
import { watchEvents } from './client/watch.ts';

const FACTS_MS = 10_000;

export interface DockerEngineOptions {
  endpoint: Endpoint;
  /** Shared with the region's storage; the engine stops it. Default: a client of its own. */
  client?: DockerClient | undefined;
  installation: string;
  /** Absolute folder for control files; the engine sees the same path. Null: it is elsewhere. */
  stateFolder: string | null;
  /**
   * Image with a shell and the tools of BusyBox, of helper containers. An engine on another host
   * needs one, an engine on this machine has none.
   */
  helperImage?: string | undefined;
  buildLocalImage?: BuildLocalImage | undefined;
  networkPool?: NetworkPool | undefined;
  dockerInside?: DockerInsideConfig | undefined;
  tools?: ToolsConfig | undefined;
  /** Absent: the host's packet filter is left alone. */
  linkLocal?: LinkLocal | undefined;
  /** Instances without `no-new-privileges`. */
  sudo?: boolean | undefined;
  isolation: IsolationConfig;
  sizes?: SizesConfig | undefined;
  cards?: CardPlaces | undefined;
  log: Pick<EngineLog, 'debug' | 'info' | 'warn'>;
}

export function makeDockerEngine(options: DockerEngineOptions): Engine {
  const modules = wireModules(options);
  const { client, host, files, addresses, images, tools, containers, inventory, save, usage, spare, runEnds, onLost } =
    modules;
  const stopping = new AbortController();
  const watches = new Set<Promise<void>>();

  async function callContext(id: InstanceId, signal: AbortSignal) {
    const info = await containers.get(id, signal);
    const ended = AbortSignal.any([signal, stopping.signal]);
    const withSpare: ExecOptions['withSpare'] = (start) => spare.start(info, start, ended);
    return { client, info, withSpare, signal: ended };
  }

  async function getRunning(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo> {
    const info = await containers.get(id, signal);
    if (!info.State.Running) throw new EngineFault('not_found', 'the instance is not running', { retry: false });
    return info;
  }

  return {
    dockerImageRef: options.dockerInside?.imageRef,
    probe: (signal) => probeWith(modules, signal),

    ...inventory,

    observe: containers.observe,

    async ensureImage(ref, onProgress, signal, credentials, imageOptions) {
      await images.ensure(ref, onProgress, signal, credentials, imageOptions);
      tools.onImagePresent(ref);
    },
    checkImage: images.check,
    describeImage: modules.describeImage,
    pushImage: images.push,
    removeImage: (ref, signal) => images.remove(ref, signal),
    saveImage: save,

    async ensure(spec, signal) {
      if (!isInstanceId(spec.id)) throw new Error(`"${String(spec.id)}" is not the id of an instance`);
      return containers.ensure(spec, signal);
    },

    setEgress: modules.egress.set,

    halt: containers.halt,

    destroy: (id, signal) => {
      if (!isInstanceId(id)) return Promise.reject(new Error(`"${String(id)}" is not the id of an instance`));
      return containers.destroy(id, signal);
    },

    watch(onHint, signal) {
      const ended = AbortSignal.any([signal, stopping.signal]);
      const uncacheAndHint = (id: InstanceId): void => {
        addresses.delete(id);
        onHint(id);
      };
      const onLive = addresses.setLive;
      const { installation } = options;
      const watching = watchEvents({ client, installation, onHint: uncacheAndHint, onLive, onLost, signal: ended });
      watches.add(watching);
      void watching.finally(() => watches.delete(watching));
    },

    logs: async (id, source, range, signal) => readLog({ ...(await callContext(id, signal)), source, range }),
    followLogs: async (id, source, range, signal) =>
      openLog({ ...(await callContext(id, signal)), source, range, follow: true }),

    async openExec(id, request, signal) {
      return openExec({ ...(await callContext(id, signal)), request, signal, stopping: stopping.signal });
    },

    exec: async (id, command, signal) => runCommand({ ...(await callContext(id, signal)), command }),

    async dial(id, port, signal) {
      const { dial: canDial } = await host.facts(signal);
      if (!canDial) {
        throw lacking('Berth cannot reach the networks of the container engine; only published node ports work');
      }
      return dial({ id, port, signal, addresses, inspect: containers.get, connectTo: modules.connectTo });
    },

    async joinNetwork(id, signal) {
      if (signal.aborted) throw faultOf(signal.reason);
      const { nsenter } = await host.facts(signal);
      if (nsenter === null) {
        throw lacking(`Berth cannot enter the networks of this container engine: ${NO_JOINS}`);
      }
      return joinNetwork(id, await getRunning(id, signal), { nsenter, runEnds });
    },

    tcpTables: (id, signal) => readTcpTables(host, () => getRunning(id, signal), signal),

    async listenUnix(id, onConnection, signal) {
      const info = await getRunning(id, signal);
      if (!client.local) throw lacking(`the region has no such sockets: ${NO_SOCKETS}`);
      const socket = await openInsideSocket(files.source(id), onConnection, signal);
      const unsubscribe = runEnds.onEnd(id, info, socket.close);
      return {
        ...socket,
        close() {
          unsubscribe();
          socket.close();
        },
      };
    },

    usage,
    rootDiskSpace: (signal) => rootDiskSpace(host, signal),

    async stop() {
      stopping.abort();
      const parts = [runEnds, tools, modules.cards, modules.idMappedMounts];
      await Promise.all([...watches, ...parts.map((one) => one.stop())]);
      client.stop();
    },
  };
}

async function probeWith({ host, sizes, cards }: ReturnType<typeof wireModules>, signal: AbortSignal): Promise<Probe> {
  const probe = await host.probe(signal);
  await sizes.followLxcfs(signal);
  cards.follow((await host.facts(signal)).gpus);
  return { ...probe, devices: cards.read(probe.devices) };
}

const lacking = (text: string): EngineFault => new EngineFault('rejected', text, { retry: false });

function wireModules(options: DockerEngineOptions) {
  const { installation, log } = options;
  const client = options.client ?? makeDockerClient(options.endpoint);
  if (client.local && options.stateFolder === null) throw new Error('an engine on this machine needs a folder');
  const stateFolder = options.stateFolder ?? NOWHERE;
  const dockerInside = options.dockerInside ?? null;
  const pool = options.networkPool ?? defaultPool;
  const filter = { installation, pool, linkLocal: options.linkLocal, log };
  const egress = makeEgress({ ...filter, client });
  const limitNetworks = makeFirewall(filter);
  const ensureFirewall: EnsureFirewall = async (on) => ({ ...(await limitNetworks(on)), ...(await egress.ensure(on)) });
  const ensureIsolation = makeIsolation(options.isolation, ensureFirewall, log);
  const { smi, image } = options.cards ?? {};
  const ensureImage: EnsureImage = (ref, signal) => {
    images.forget(ref);
    return images.ensure(ref, () => {}, signal);
  };
  const startSmi = smiHereOrThere(
    client.local ? smiHere(smi) : null,
    image === undefined ? null : smiThere({ client, installation, image, ensureImage, log }),
  );
  const host = makeHost(client, dockerInside?.mode ?? null, ensureIsolation, options.sizes, startSmi);
  const networks = makeNetworks({ client, host, installation, pool, egress });
  const addresses = makeAddressCache();
  const images = makeDockerImages({ client, host, installation, buildLocalImage: options.buildLocalImage });
  const { files, connectTo } = client.local
    ? { files: makeControlFiles(stateFolder), connectTo: connectHere }
    : wireElsewhere(options, client, host, ensureImage);
  const idMappedMounts = makeIdMappedMounts(idMappedFolder(stateFolder));
  const onImageGone = images.forget;
  const daemons = makeDockerInside({ client, installation, host, idMappedMounts, config: dockerInside, onImageGone });
  const tools = makeTools({ client, installation, host, images, log }, options.tools);
  const nsenter = (): Promise<string | null> =>
    host.facts(AbortSignal.timeout(FACTS_MS)).then(
      (facts) => facts.nsenter,
      () => null,
    );
  const spare = makeSpareProcesses(nsenter);
  const sizesFolder = join(stateFolder, '.processors');
  const sizes = makeShownSizes({ client, installation, facts: host.facts, folder: sizesFolder, log });
  const folders = { files, idMappedMounts, tools };
  const shared = { client, installation, host, networks, ...folders, addresses, daemons, spare, sizes };
  const cardNodes = makeCardNodes(options.cards);
  const { sudo = false } = options;
  const deps = { ...shared, sudo, cardNodes, processors: makeProcessors(), onImageGone, log };
  const containers = makeContainers(deps);
  const inventory = makeInventory({ client, installation, containers, daemons, networks, images });
  const describeImage = makeDescribeImage({ client, installation, images });
  const save = makeSaves({ client, installation, containers, images });
  const cards = makeCardWatch({ log, start: startSmi, kernelLog: client.local ? undefined : null });
  const usage = makeUsage({ client, installation, host, readGpus: makeReadGpus({ client, host, cards, cardNodes }) });
  const onLost = (error: unknown, pauseMs: number): void => {
    // The probe of control reports an engine that is away.
    const level = isEngineAway(error) ? 'debug' : 'warn';
    log[level]({ reason: reasonText(error), pauseMs }, 'the stream of engine events ended; Berth opens another');
  };
  const runEnds = makeRunEnds({ client, installation, onLost });
  return {
    client,
    host,
    ...folders,
    addresses,
    images,
    describeImage,
    containers,
    inventory,
    save,
    usage,
    cards,
    spare,
    sizes,
    runEnds,
    onLost,
    egress,
    connectTo,
  };
}

function wireElsewhere(
  { installation, helperImage }: DockerEngineOptions,
  client: DockerClient,
  host: Host,
  ensureImage: EnsureImage,
): { files: ControlFiles; connectTo: Connect } {
  if (helperImage === undefined) throw new Error('an engine on another host needs an image of helper containers');
  const helper = { helperImage, ensureImage };
  const relay = makeRelay(client, installation, helper);
  return {
    files: makeControlVolumes({ client, installation, ...helper }),
    async connectTo(address, port, signal) {
      // The networks of a rootless engine are in a namespace of their own.
      const { rootless } = await host.facts(signal);
      return client.connectThere === null || rootless
        ? relay(address, port, signal)
        : client.connectThere(address, port, signal);
    },
  };
}
