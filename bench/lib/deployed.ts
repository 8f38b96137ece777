/**
 * The deployed gateway before many simulated instances, launched once and kept in a data folder for
 * later servers. All connections to instances lead to one local port.
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
  /** Token of the owner. */
  token: string;
  /** Port of the gateway. */
  gatewayPort: number;
}

/** Launches `count` instances, and resolves once all run. */
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

/** Starts API and gateway in one process, with an idle control loop. */
export async function startAll({ dataFolder, gatewayPort }: Region, dialTo: number): Promise<Served> {
  const berth = await startBerth(simulated(dataFolder, { loop: 'off', dialTo, gatewayPort }));
  return { pid: berth.child.pid, port: portOf(berth), stop: () => berth.child.stop() };
}

const portOf = ({ gatewayUrl }: Berth): number => Number(new URL(gatewayUrl).port);

export interface Apart extends Served {
  /** Restarts the API on the same data; milliseconds of the outage. */
  restartApi(): Promise<number>;
}

/** A separate gateway process, with an API in another. */
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
