/**
 * The control loop with many rows: wake-up delay in a store of 100,000 instances, and recovery time
 * after `kill -9` with a thousand running.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { program } from '../scripts/lib/program.mjs';
import { z } from 'zod';
import { makeClient } from '../src/contract/client.ts';
import type { Bench } from './bench.ts';
import { launchBody, startBerth } from './lib/berth.ts';
import { median, percentile, shown, spread } from './lib/numbers.ts';
import { freePort, startProgram, type Started } from './lib/program.ts';
import { seed } from './lib/seed.ts';
import { DOMAIN, PASSWORD, simulated } from './lib/settings.ts';

const ROWS = 100_000;
const WAKES = 300;
const RUNNING = 1_000;
const CHANGED = 100;
const KILLS = 5;
const AT_ONCE = 64;
const DEADLINE_MS = 120_000;
const POLL_MS = 20;
const PAGE_SIZE = 500;
const NO_PORTS_SHORT = '1-65535';

type Client = ReturnType<typeof makeClient>;

/** Milliseconds from a launch's answer to its first engine request, one launch at a time. */
async function wakes(folder: string, count: number, say: (text: string) => void): Promise<number[]> {
  say(`  seeding ${ROWS.toLocaleString('en')} rows`);
  await seed(folder, ROWS, say);
  const berth = await startBerth(simulated(folder));
  try {
    const { token } = await berth.login('admin');
    const client = berth.client(token);
    const took: number[] = [];
    for (let n = 0; n < count; n++) {
      const asked = berth.child.ask('wake', z.number());
      const { instanceId } = await client.launch(launchBody(berth));
      took.push(await asked);
      await berth.child.ask({ instanceId, status: 'Running', phase: 'Ready', deadlineMs: DEADLINE_MS }, z.null());
    }
    return took;
  } finally {
    await berth.child.stop();
  }
}

export async function listStatuses(client: Client): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (let currentPage = 1; ; currentPage++) {
    const { instances, pager } = await client.listInstances({ pager: { currentPage, pageSize: PAGE_SIZE } });
    for (const { instanceMetadata, instanceRuntimeInfo } of instances)
      found.set(instanceMetadata.instanceId, instanceRuntimeInfo.status);
    if (currentPage * PAGE_SIZE >= pager.totalEntries) return found;
  }
}

export async function forEachConcurrently<T>(items: readonly T[], fn: (item: T) => Promise<unknown>): Promise<void> {
  const waiting = items.values();
  const worker = async (): Promise<void> => {
    for (const item of waiting) await fn(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

const isAsDesired = (found: Map<string, string>, desired: ReadonlyMap<string, string>): boolean =>
  [...desired].every(([id, status]) => found.get(id) === status);

async function kills(
  folder: string,
  rounds: number,
  say: (text: string) => void,
): Promise<{ servingMs: number[]; settledMs: number[] }> {
  const [port, gatewayPort] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const env = {
    BERTH_DATA: folder,
    BERTH_LISTEN: `127.0.0.1:${port}`,
    BERTH_GATEWAY_LISTEN: `127.0.0.1:${gatewayPort}`,
    BERTH_DOMAIN: DOMAIN,
    BERTH_ENGINE: 'simulated',
    BERTH_NODE_PORTS: NO_PORTS_SHORT,
    BERTH_ADMIN_PASSWORD: PASSWORD,
    BERTH_CPU_OVERCOMMIT: '100',
    BERTH_REQUESTS_PER_SECOND: '1000000',
    BERTH_TRUSTED_PROXIES: '127.0.0.1',
    BERTH_LOG: 'error',
  };
  const start = (): Promise<Started> => startProgram(program, env, async () => (await fetch(`${url}/readyz`)).ok);
  let server = await start();
  try {
    const { accessToken } = await makeClient({ baseUrl: `${url}/api` }).login({
      username: 'admin',
      password: PASSWORD,
    });
    const client = makeClient({ baseUrl: `${url}/api`, credential: { kind: 'token', token: accessToken } });
    const image = (await client.listImages({ pager: { currentPage: 1, pageSize: 1 } })).images[0];
    const regionInfo = (await client.catalog()).instanceInfos.find(({ gpuName }) => gpuName === '')?.regionInfos[0];
    const body = launchBody({
      example: {
        region: regionInfo?.regionId ?? '',
        imageId: image?.imageId ?? '',
        instanceTypeId: regionInfo?.instanceTypeInfos[0]?.instanceTypeId ?? '',
      },
    });
    const desired = new Map<string, string>();
    await forEachConcurrently(Array.from({ length: RUNNING }), async () => {
      desired.set((await client.launch({ ...body, nodePorts: [] })).instanceId, 'Running');
    });
    const settled = async (): Promise<void> => {
      for (
        const endMs = performance.now() + DEADLINE_MS;
        !isAsDesired(await listStatuses(client), desired);
        await sleep(POLL_MS)
      )
        if (performance.now() > endMs) throw new Error('it did not settle in time');
    };
    await settled();
    const [servingMs, settledMs]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      say(`  kill ${round + 1} of ${rounds}`);
      // Kills the server while a tenth is stopping or starting.
      const some = [...desired].slice(round * CHANGED, (round + 1) * CHANGED);
      await forEachConcurrently(some, async ([instanceId, status]) => {
        await (status === 'Running' ? client.stop({ instanceId }) : client.start({ instanceId }));
        desired.set(instanceId, status === 'Running' ? 'Stopped' : 'Running');
      });
      server.process.kill('SIGKILL');
      await new Promise((resolve) => server.process.once('exit', resolve));
      const beganMs = performance.now();
      server = await start();
      servingMs.push(performance.now() - beganMs);
      await settled();
      settledMs.push(performance.now() - beganMs);
    }
    return { servingMs, settledMs };
  } finally {
    await server.end();
  }
}

export const settle: Bench = {
  title: `the loop: a wake among ${ROWS.toLocaleString('en')} instances, and a \`kill -9\` with ${RUNNING.toLocaleString('en')} running`,
  async run({ folder, flags, say }) {
    const short = flags.has('--short');
    const tookMs = await wakes(join(folder, 'many'), short ? 30 : WAKES, say);
    const { servingMs, settledMs } = await kills(join(folder, 'killed'), short ? 1 : KILLS, say);
    const p99 = percentile(tookMs, 0.99);
    const worst = { serving: Math.max(...servingMs), settled: Math.max(...settledMs) };
    return {
      table: [
        ['', 'ms: median [least-most]', '99 of 100 within'],
        ['from the commit of a launch to the first engine call of its reconcile', spread(tookMs), shown(p99)],
        ['after kill -9: until it serves', spread(servingMs), '-'],
        ['after kill -9: until each instance has its desired state', spread(settledMs), '-'],
      ],
      verdicts: [
        { asked: 'a wake-up reaches its row in < 20 ms at p99', measured: `${shown(p99)} ms`, met: p99 < 20 },
        {
          asked: 'serving in 1.5 s',
          measured: `${shown(worst.serving)} ms at most, median ${shown(median(servingMs))}`,
          met: worst.serving <= 1_500,
        },
        {
          asked: 'converged in 10 s',
          measured: `${shown(worst.settled)} ms at most, median ${shown(median(settledMs))}`,
          met: worst.settled <= 10_000,
        },
      ],
      notes: [
        `Wake-ups: one launch at a time on the simulated engine, timed inside the server from the launch's durable transaction to the reconcile's first engine call, which follows a durable write of its own. Kills: ${RUNNING.toLocaleString('en')} running instances on the simulated engine, of which ${CHANGED} are being stopped or started as the server is killed; the engine keeps its state in a file, as a daemon would. The API is polled every ${POLL_MS} ms.`,
      ],
    };
  },
};
