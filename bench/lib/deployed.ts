/**
 * The gateway as it is deployed, before many running instances of the simulated engine: launched once, kept in a data folder, and found
 * again by each server that is started on it. Connections to any of them lead to one port of this host.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { launchBody, startBerth, type Berth } from './berth.ts';
import type { Served } from './external-server.ts';
import { servedBy } from './peers.ts';
import { simulated } from './settings.ts';

const AT_ONCE = 64;
const PAGE_SIZE = 500;
const POLL_MS = 100;
const DEADLINE_MS = 300_000;

export interface Region {
  dataFolder: string;
  /** Some of the running instances. */
  ids: string[];
  /** Of the account whose they are. */
  token: string;
  /** Where the gateway of them all is to be. */
  gatewayPort: number;
}

/** Launches so many, and answers once all run. */
export async function launchMany(dataFolder: string, count: number, some: number): Promise<Region> {
  const berth = await startBerth(simulated(dataFolder, { dialTo: 1 }), 'any');
  try {
    const { token } = await berth.login('admin');
    const client = berth.client(token);
    let left = count;
    const launch = async (): Promise<void> => {
      while (left-- > 0) await client.launch(launchBody(berth));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, launch));
    const ids: string[] = [];
    for (const endMs = performance.now() + DEADLINE_MS; ids.length < count;) {
      const currentPage = Math.floor(ids.length / PAGE_SIZE) + 1;
      const { instances } = await client.listInstances({ pager: { currentPage, pageSize: PAGE_SIZE } });
      const running = instances.filter(({ instanceRuntimeInfo }) => instanceRuntimeInfo.status === 'Running');
      if (running.length === Math.min(PAGE_SIZE, count - ids.length))
        ids.push(...running.map(({ instanceMetadata }) => instanceMetadata.instanceId));
      else if (performance.now() < endMs) await sleep(POLL_MS);
      else throw new Error(`of ${count} instances not all run in time`);
    }
    const step = Math.floor(count / some);
    const gatewayPort = portOf(berth);
    return { dataFolder, token, gatewayPort, ids: ids.filter((_, index) => index % step === 0).slice(0, some) };
  } finally {
    await berth.child.stop();
  }
}

/** One process for API and gateway; its loop is at rest, as with nothing launched or ended. */
export async function startAll({ dataFolder, gatewayPort }: Region, dialTo: number): Promise<Served> {
  const berth = await startBerth(simulated(dataFolder, { loop: 'off', dialTo, gatewayPort }));
  return { pid: berth.child.pid, port: portOf(berth), stop: () => berth.child.stop() };
}

const portOf = ({ gatewayUrl }: Berth): number => Number(new URL(gatewayUrl).port);

export interface Apart extends Served {
  /** Ends the API, and starts it again on the same data; milliseconds that it was away. */
  restartApi(): Promise<number>;
}

/** A process of its own, following an API that is another. */
export async function startApart({ dataFolder, gatewayPort }: Region, dialTo: number): Promise<Apart> {
  const settings = simulated(dataFolder, { role: 'api', loop: 'off', dialTo, gatewayPort });
  let api: Berth = await startBerth(settings, 1);
  try {
    const gateway = await servedBy('gateway.ts', 0, settings);
    return {
      ...gateway,
      async stop() {
        await gateway.stop();
        await api.child.stop();
      },
      async restartApi() {
        const beganMs = performance.now();
        await api.child.stop();
        api = await startBerth(settings, 1);
        return performance.now() - beganMs;
      },
    };
  } catch (error) {
    await api.child.stop();
    throw error;
  }
}
