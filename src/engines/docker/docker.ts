/**
 * # The Docker engine
 *
 * Hands on a Docker Engine (20.10 and newer), or on Podman through its Docker-compatible API. Each
 * file holds one noun: `containers` the life of a container, `create-options` what it may do,
 * `networks` and `subnets` where it lives, `images`, `transfers` (pulls and pushes), `saves` (an
 * image of a root disk), `refs` (names of images), `control-files`, `addresses` (dial), `exec`,
 * `kill` and `inside` (commands), `network-joins`, `network-parent` and `network-child` (from
 * within a network), `names`, `inside-sockets`, `ends` (of runs), `logs` and `log-lines`,
 * `docker-inside` and `docker-inside-options` (the daemon beside an instance with Docker), `usage`,
 * `owned` (what is ours), `watch`, `host` (probe), `faults` and `registry-faults` (what answers
 * mean), `client` (the connection), `streams` (its formats), `turns` (how many at once),
 * `observation` and `out-of-memory` (how an inspect is read), `recipes` (images built here),
 * `tools` (what images may lack).
 *
 * Nothing here decides: it is told, and says what it sees. What it can't see is unknown.
 */
import { makeSemaphore } from '../../async/semaphore.ts';
import type { ContainerInspectInfo } from 'dockerode';
import type { Logger } from 'pino';
import type { InstanceId } from '../../domain/ids.ts';
import { isInstanceId } from '../../domain/ids.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { Engine, Observation } from '../contract.ts';
import { containerName, labels } from '../labels.ts';
import { dial, makeAddressCache } from './network/addresses.ts';
import { makeClient, type Endpoint } from './client/client.ts';
import { makeContainers } from './container/containers.ts';
import { makeControlFiles } from './container/control-files.ts';
import { makeDockerInside, type DockerInsideConfig } from './container/docker-inside.ts';
import { makeRunEnds } from './container/run-ends.ts';
import { abortFault, faultOf } from './client/faults.ts';
import { makeHost } from './client/host.ts';
import { makeImages, type BuildLocalImage } from './image/images.ts';
import { openExec } from './exec/exec.ts';
import { openInsideSocket } from './network/inside-sockets.ts';
import { runCommand } from './exec/run-command.ts';
import { openLog, readLog } from './exec/logs.ts';
import { joinNetwork } from './network/joins.ts';
import { makeNetworks } from './network/networks.ts';
import { makeInventory } from './container/inventory.ts';
import { makeSaves } from './image/saves.ts';
import { defaultPool, type NetworkPool } from './network/subnets.ts';
import { makeTools, type ToolsConfig } from './container/tools.ts';
import { makeUsage } from './usage/usage.ts';
import { watchEvents } from './client/watch.ts';

export interface DockerEngineOptions {
  endpoint: Endpoint;
  /** Id of this installation: the label by which it knows what is its own. */
  installation: string;
  /** Absolute folder for the instances' control files, seen by the engine under the same path. */
  stateFolder: string;
  /** Makes images whose ref begins with `berth.local/`. */
  buildLocalImage?: BuildLocalImage | undefined;
  networkPool?: NetworkPool | undefined;
  /** How instances may have a Docker; absent: not at all. */
  dockerInside?: DockerInsideConfig | undefined;
  /** What instances get whose images lack it; absent: nothing. */
  tools?: ToolsConfig | undefined;
  log: Pick<Logger, 'info' | 'warn'>;
}

/** More inspects at once are no faster. */
const INSPECTS_AT_ONCE = 8;
/** From here on one list, which tells those that are absent, is cheaper than asking for each. */
const LIST_FROM = 4;

export function makeDockerEngine(options: DockerEngineOptions): Engine {
  const { installation, log } = options;
  const client = makeClient(options.endpoint);
  const { docker, call } = client;
  const setting = options.dockerInside ?? null;
  const host = makeHost(client, setting?.mode ?? null);
  const networks = makeNetworks({ client, host, installation, pool: options.networkPool ?? defaultPool });
  const files = makeControlFiles(options.stateFolder);
  const addresses = makeAddressCache();
  const images = makeImages({ client, installation, buildLocalImage: options.buildLocalImage });
  const daemons = makeDockerInside({ client, installation, host, setting, onImageGone: images.forget });
  const tools = makeTools({ client, installation, host, setting: options.tools, log });
  const containers = makeContainers({
    client,
    installation,
    host,
    networks,
    files,
    addresses,
    daemons,
    tools,
    onImageGone: images.forget,
  });
  const inventory = makeInventory({ client, installation, containers, daemons, networks, images });
  const save = makeSaves({ client, installation, containers, images });
  const usage = makeUsage(client, installation, host);
  const onLost = (error: unknown, pauseMs: number): void =>
    log.warn({ err: error, pauseMs }, 'the stream of engine events broke; it is opened again');
  const runEnds = makeRunEnds({ client, installation, onLost });
  const inspects = makeSemaphore(INSPECTS_AT_ONCE, { abortError: abortFault });
  const stopping = new AbortController();
  const watches = new Set<Promise<void>>();

  const ours = { label: [`${labels.installation}=${installation}`] };
  const listContainers = (signal: AbortSignal) =>
    call(signal, (abortSignal) => docker.listContainers({ all: true, filters: ours, abortSignal }));

  async function observeOne(id: InstanceId, signal: AbortSignal): Promise<Observation> {
    try {
      return await inspects.run(() => containers.observe(id, signal), { signal });
    } catch (error) {
      return { kind: 'unknown', reason: faultOf(error).message };
    }
  }

  /** What is asked of one, for as long as this engine object is there. */
  async function about(id: InstanceId, signal: AbortSignal) {
    const info = await containers.get(id, signal);
    return { client, info, signal: AbortSignal.any([signal, stopping.signal]) };
  }

  async function getRunning(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo> {
    const info = await containers.get(id, signal);
    if (!info.State.Running) throw new EngineFault('not_found', 'the instance does not run', { retry: false });
    return info;
  }

  return {
    dockerImageRef: setting?.imageRef,
    probe: (signal) => host.probe(signal),

    listOwned: (signal) => inventory.list(signal),
    discard: (one, signal) => inventory.discard(one, signal),

    async observe(ids, signal) {
      let names: Set<string> | null = null;
      if (ids.length >= LIST_FROM) {
        try {
          names = new Set(
            (await listContainers(signal)).flatMap(({ Names }) => Names.map((name) => name.replace(/^\//, ''))),
          );
        } catch (error) {
          const reason = faultOf(error).message;
          return new Map(ids.map((id) => [id, { kind: 'unknown', reason }]));
        }
      }
      // The list does not say exit codes and times of start, so who is there is looked at.
      const seen = ids.map(async (id): Promise<[InstanceId, Observation]> => {
        if (names !== null && !names.has(containerName(id))) return [id, { kind: 'absent' }];
        return [id, await observeOne(id, signal)];
      });
      return new Map(await Promise.all(seen));
    },

    async ensureImage(ref, onProgress, signal, credentials, more) {
      await images.ensure(ref, onProgress, signal, credentials, more);
      tools.onImagePresent(ref);
    },
    pushImage: (ref, onProgress, signal, credentials) => images.push(ref, onProgress, signal, credentials),
    removeImage: (ref, signal) => images.remove(ref, signal),
    saveImage: save,

    async ensure(spec, signal) {
      if (!isInstanceId(spec.id)) throw new Error(`"${String(spec.id)}" is no instance's id`); // it becomes a name of a folder
      return containers.ensure(spec, signal);
    },

    halt: (id, graceMs, signal) => containers.halt(id, graceMs, signal),

    destroy: (id, signal) => {
      if (!isInstanceId(id)) return Promise.reject(new Error(`"${String(id)}" is no instance's id`));
      return containers.destroy(id, signal);
    },

    watch(onHint, signal) {
      const ended = AbortSignal.any([signal, stopping.signal]);
      const forgetAndHint = (id: InstanceId): void => {
        addresses.delete(id);
        onHint(id);
      };
      const onLive = addresses.setLive;
      const watching = watchEvents({ client, installation, onHint: forgetAndHint, onLive, onLost, signal: ended });
      watches.add(watching);
      void watching.finally(() => watches.delete(watching));
    },

    logs: async (id, source, range, signal) => readLog({ ...(await about(id, signal)), source, range }),
    followLogs: async (id, source, range, signal) =>
      openLog({ ...(await about(id, signal)), source, range, follow: true }),

    async openExec(id, request, signal) {
      const info = await containers.get(id, signal);
      return openExec({ client, info, request, signal, stopping: stopping.signal });
    },

    exec: async (id, command, signal) => runCommand({ ...(await about(id, signal)), command }),

    async dial(id, port, signal) {
      const { dial: can } = await host.facts(signal);
      if (!can) {
        const text = 'the container engine keeps its networks out of reach of Berth; only published node ports work';
        throw new EngineFault('rejected', text, { retry: false });
      }
      return dial({ id, port, signal, addresses, inspect: containers.get });
    },

    async joinNetwork(id, signal) {
      const { nsenter } = await host.facts(signal);
      if (nsenter === null) {
        const text =
          "Berth can not enter the networks of this container engine: that needs root, nsenter, and the engine on Berth's own machine";
        throw new EngineFault('rejected', text, { retry: false });
      }
      return joinNetwork({ id, info: await getRunning(id, signal), nsenter, runEnds });
    },

    async listenUnix(id, onConnection, signal) {
      const info = await getRunning(id, signal);
      const socket = await openInsideSocket(files.folder(id), onConnection, signal);
      const unsubscribe = runEnds.onEnd(id, info, socket.close);
      return {
        ...socket,
        close() {
          unsubscribe();
          socket.close();
        },
      };
    },

    usage: (ids, signal, more = {}) => usage(ids, signal, more),

    async stop() {
      stopping.abort();
      await Promise.all([...watches, runEnds.stop(), tools.stop()]);
      client.stop();
    },
  };
}
