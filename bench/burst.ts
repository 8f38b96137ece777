/**
 * Many concurrent launches on the local container engine: start rate against a bare client with the
 * same containers and the best concurrency, and the delay of another account's launch behind two
 * hundred.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Docker from 'dockerode';
import { z } from 'zod';
import { instanceId } from '../src/domain/kernel/ids.ts';
import { containerName } from '../src/engines/labels.ts';
import type { Bench } from './bench.ts';
import { bareOptions } from './lib/bare-container.ts';
import { launchBody, startBerth, type Berth } from './lib/berth.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';
import { simulated } from './lib/settings.ts';
import { watchStarts } from './lib/start-events.ts';

const BURST = 20;
const QUEUED = 200;
const WIDTHS = [2, 4, 8];
const NODE_PORTS = { first: 28_000, last: 28_999 };
const FIRST_BARE_PORT = 29_600;
const DEADLINE_MS = 120_000;
const SETTLE_MS = 500;
const ASKED_SHARE = 0.95;
const ASKED_STARTS = 3;
const PAGE = { pager: { currentPage: 1, pageSize: 10 } };

type Client = ReturnType<Berth['client']>;

async function reaches(berth: Berth, id: string, status: string, phase: string): Promise<void> {
  await berth.child.ask({ instanceId: id, status, phase, deadlineMs: DEADLINE_MS }, z.null());
}

/** Terminates all instances, and waits for their clean-up. */
async function removeAll(berth: Berth, client: Client, ids: readonly string[]): Promise<void> {
  await Promise.all(ids.map((id) => client.terminate({ instanceId: id })));
  for (const id of ids) await reaches(berth, id, 'Released', 'Cleaned');
  await sleep(SETTLE_MS);
}

/** Reads all pages: released instances of earlier rounds come before the first launches. */
async function living(client: Client): Promise<string[]> {
  const found: string[] = [];
  for (let currentPage = 1; ; currentPage++) {
    const { instances } = await client.listInstances({ pager: { currentPage, pageSize: 500 } });
    if (instances.length === 0) return found;
    const live = instances.filter(({ instanceRuntimeInfo }) => instanceRuntimeInfo.status !== 'Released');
    found.push(...live.map(({ instanceMetadata }) => instanceMetadata.instanceId));
  }
}

/**
 * Bare client: copies of `model`, `BURST` times, `width` calls at once. Milliseconds to the last
 * start.
 */
async function bareBurst(
  docker: Docker,
  model: Docker.ContainerInspectInfo,
  folder: string,
  width: number,
): Promise<number> {
  const wanted = await Promise.all(
    Array.from({ length: BURST }, (_, number) =>
      bareOptions(model, {
        name: `berth-bench-burst-${process.pid}-${number}`,
        folder: join(folder, `bare-${number}`),
        firstPort: FIRST_BARE_PORT + 2 * number,
      }),
    ),
  );
  const made: Docker.Container[] = [];
  const starts = await watchStarts(docker);
  try {
    const beganMs = performance.now();
    const waiting = wanted.values();
    const worker = async (): Promise<void> => {
      for (const one of waiting) {
        const container = await docker.createContainer(one);
        made.push(container);
        await container.start();
      }
    };
    await Promise.all(Array.from({ length: width }, worker));
    return (await starts.nth(BURST, DEADLINE_MS)) - beganMs;
  } finally {
    starts.stop();
    await Promise.all(made.map((container) => container.remove({ force: true, v: true })));
    await sleep(SETTLE_MS);
  }
}

async function ourBurst(docker: Docker, berth: Berth, client: Client): Promise<number> {
  await berth.child.ask('small type', z.null());
  const starts = await watchStarts(docker);
  let ids: string[] = [];
  try {
    const beganMs = performance.now();
    ids = (await Promise.all(Array.from({ length: BURST }, () => client.launch(launchBody(berth))))).map(
      (one) => one.instanceId,
    );
    return (await starts.nth(BURST, DEADLINE_MS)) - beganMs;
  } finally {
    starts.stop();
    await removeAll(berth, client, ids);
  }
}

/**
 * Delay of another account's launch behind two hundred queued ones, in container starts at the
 * current rate.
 */
async function behindTheQueue(docker: Docker, berth: Berth, many: Client, one: Client): Promise<number> {
  await berth.child.ask('small type', z.null());
  const ids = (await Promise.all(Array.from({ length: QUEUED }, () => many.launch(launchBody(berth))))).map(
    ({ instanceId: id }) => id,
  );
  const starts = await watchStarts(docker);
  let mine = '';
  try {
    await starts.nth(BURST / 2, DEADLINE_MS);
    const calledMs = performance.now();
    mine = (await one.launch(launchBody(berth))).instanceId;
    const { createdMs } = await starts.named(containerName(instanceId(mine)), DEADLINE_MS);
    return (createdMs - calledMs) / median(starts.tookMs());
  } finally {
    starts.stop();
    await removeAll(berth, many, ids);
    if (mine !== '') await removeAll(berth, one, [mine]);
  }
}

export const burst: Bench = {
  title: `${BURST} launches at once on the container engine, and one behind ${QUEUED} of another account`,
  async run({ folder, flags, say }) {
    const docker = new Docker();
    const settings = simulated(join(folder, 'data'), { engine: 'docker', nodePorts: NODE_PORTS, smallType: true });
    const berth = await startBerth(settings, 'any');
    const clients: Client[] = [];
    try {
      const { token } = await berth.login('admin');
      const client = berth.client(token);
      const other = berth.client(await berth.newAccount('other'));
      clients.push(client, other);
      while ((await client.listImages(PAGE)).images[0]?.state !== 'Ready') await sleep(200);
      // Permanent instances keep both accounts' networks; the bare client copies the first.
      const standing = await Promise.all([client, other].map((each) => each.launch(launchBody(berth))));
      for (const { instanceId: id } of standing) await reaches(berth, id, 'Running', 'Ready');
      const model = await docker.getContainer(containerName(instanceId(standing[0]?.instanceId ?? ''))).inspect();
      const bare = (width: number) => (): Promise<number> => bareBurst(docker, model, folder, width);
      const short = flags.has('--short');
      const widths = Object.fromEntries(WIDTHS.map((width) => [`bare, ${width} at once`, bare(width)]));
      const rounds = await alternate<number>({
        rounds: short ? 1 : 5,
        calibrator: null,
        say,
        candidates: { ...widths, berth: () => ourBurst(docker, berth, client) },
      });
      const waits: number[] = [];
      for (let round = 0; round < (short ? 1 : 3); round++)
        waits.push(await behindTheQueue(docker, berth, client, other));
      const names = Object.keys(widths);
      const best = Math.min(...names.map((name) => median(rounds.of(name))));
      const share = best / median(rounds.of('berth'));
      return {
        table: [
          ['', `ms from the first call to the last of ${BURST} starts`, 'starts/s'],
          ...[...names, 'berth'].map((name) => [
            name,
            spread(rounds.of(name)),
            shown((BURST * 1000) / median(rounds.of(name))),
          ]),
          [`behind ${QUEUED} of another account: wait until its own create, in engine starts`, spread(waits), ''],
        ],
        verdicts: [
          {
            asked: `at least ${ASKED_SHARE} of the throughput of the bare client at its best`,
            measured: shown(share),
            met: share >= ASKED_SHARE,
          },
          {
            asked: `behind ${QUEUED}: waits at most ${ASKED_STARTS} engine starts`,
            measured: shown(Math.max(...waits)),
            met: Math.max(...waits) <= ASKED_STARTS,
          },
        ],
        notes: [
          `Both are timed by the engine's own start events, bare and Berth in turn, everything removed in between. The default image, with its limits, mounts, ports and network. The bare client has its folders made before; Berth makes its own within the time. The wait behind the queue is from the other account's launch call to the engine's event of its container being created; an engine start is the median, in that same queue, from a container's create event to its start event.`,
        ],
      };
    } finally {
      for (const each of clients) await removeAll(berth, each, await living(each));
      await berth.child.stop();
    }
  },
};
