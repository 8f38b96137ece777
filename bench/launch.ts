/**
 * Launch time, from the create call to `Running`, on the local container engine, against a minimal
 * dockerode client with the same image, limits, mounts, ports and network. `Running` means that ssh
 * answers, so the bare client waits for ssh's banner too.
 */
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Docker from 'dockerode';
import { containerName } from '../src/engines/labels.ts';
import { z } from 'zod';
import { instanceId as instanceIdOf } from '../src/domain/kernel/ids.ts';
import type { Bench } from './bench.ts';
import { bareOptions } from './lib/bare-container.ts';
import { launchBody, startBerth, type Berth } from './lib/berth.ts';
import { median, percentile, shown, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';
import { simulated } from './lib/settings.ts';

const NODE_PORTS = { first: 29_000, last: 29_399 };
const FIRST_BARE_PORT = 29_500;
const POLL_MS = 2;
/** Pause between measurements, for the engine's last events. */
const SETTLE_MS = 100;
export const IMAGE_DEADLINE_MS = 600_000;
export const LAUNCH_DEADLINE_MS = 60_000;
const PAGE = { pager: { currentPage: 1, pageSize: 10 } };
const OVER_SHARE = 0.15;
const OVER_MS = 30;

type Client = ReturnType<Berth['client']>;

export interface Took {
  startedMs: number;
  readyMs: number;
}

export async function until(
  asked: () => Promise<boolean>,
  deadlineMs: number,
  pauseMs: number,
  what: string,
): Promise<void> {
  const endMs = performance.now() + deadlineMs;
  while (!(await asked())) {
    if (performance.now() > endMs) throw new Error(`${what}: not after ${deadlineMs / 1000} s`);
    await sleep(pauseMs);
  }
}

const seen = (berth: Berth, instanceId: string, status: string, phase: string): Promise<null> =>
  berth.child.ask({ instanceId, status, phase, deadlineMs: LAUNCH_DEADLINE_MS }, z.null());

export const isRunning = (berth: Berth, instanceId: string): Promise<null> =>
  seen(berth, instanceId, 'Running', 'Ready');

export async function launched(
  berth: Berth,
  client: Client,
  instanceTypeId = berth.example.instanceTypeId,
): Promise<{ id: string; readyMs: number }> {
  const beganMs = performance.now();
  const { instanceId: id } = await client.launch({ ...launchBody(berth), instanceTypeId });
  await isRunning(berth, id);
  return { id, readyMs: performance.now() - beganMs };
}

/** Terminates an instance and waits for its clean-up, outside of the measurement. */
export async function removed(berth: Berth, client: Client, id: string): Promise<void> {
  await client.terminate({ instanceId: id });
  await seen(berth, id, 'Released', 'Cleaned');
  await sleep(SETTLE_MS);
}

export const banner = (host: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host, port: 22, noDelay: true });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('data', (bytes) => end(bytes.toString('latin1').startsWith('SSH-')));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });

/** Bare client: copies `model` under another name, with other ports and folders. */
export function makeBare(docker: Docker, model: Docker.ContainerInspectInfo, folder: string, firstPort: number) {
  let count = 0;
  return async (): Promise<Took> => {
    const number = count++;
    const options = await bareOptions(model, {
      name: `berth-bench-bare-${process.pid}-${firstPort}-${number}`,
      folder: join(folder, `bare-${number}`),
      firstPort: firstPort + 2 * (number % 100),
    });
    const beganMs = performance.now();
    const container = await docker.createContainer(options);
    try {
      await container.start();
      const startedMs = performance.now() - beganMs;
      const { NetworkSettings } = await container.inspect();
      const address = Object.values(NetworkSettings.Networks)[0]?.IPAddress ?? '';
      await until(() => banner(address), LAUNCH_DEADLINE_MS, POLL_MS, 'the bare container has no ssh');
      return { startedMs, readyMs: performance.now() - beganMs };
    } finally {
      await container.remove({ force: true, v: true });
      await sleep(SETTLE_MS);
    }
  };
}

export const imageIsReady = async (client: Client): Promise<boolean> =>
  (await client.listImages(PAGE)).images[0]?.state === 'Ready';

export const launch: Bench = {
  title: 'a launch on the container engine, image present: create call to Running, one at a time',
  async run({ folder, flags, say }) {
    const docker = new Docker();
    const dataFolder = join(folder, 'data');
    const berth = await startBerth(simulated(dataFolder, { engine: 'docker', nodePorts: NODE_PORTS }), 'any');
    const { token } = await berth.login('admin');
    const client = berth.client(token);
    const living = new Set<string>();
    try {
      await until(() => imageIsReady(client), IMAGE_DEADLINE_MS, 200, 'the default image is not Ready');
      // Permanent: keeps the account's network, and is the model of the bare client.
      const first = await launched(berth, client);
      living.add(first.id);
      const model = await docker.getContainer(containerName(instanceIdOf(first.id))).inspect();
      const bare = makeBare(docker, model, folder, FIRST_BARE_PORT);
      const ours = async (): Promise<Took> => {
        const { id, readyMs } = await launched(berth, client);
        living.add(id);
        await removed(berth, client, id);
        living.delete(id);
        return { startedMs: Number.NaN, readyMs };
      };
      await bare();
      await ours();
      const rounds = await alternate<Took>({
        rounds: flags.has('--short') ? 5 : 25,
        calibrator: null,
        say: () => {},
        candidates: { bare, ours },
      });
      const bareMs = rounds.of('bare').map((took) => took.readyMs);
      const oursMs = rounds.of('ours').map((took) => took.readyMs);
      const over = median(oursMs) - median(bareMs);
      const allowed = Math.max(OVER_MS, OVER_SHARE * median(bareMs));
      const row = (text: string, values: number[]): string[] => [text, spread(values), shown(percentile(values, 0.95))];
      return {
        table: [
          ['', 'ms: median [least-most]', '95 of 100 within'],
          row(
            'bare engine: create and start answered',
            rounds.of('bare').map((took) => took.startedMs),
          ),
          row('bare engine: create call to ssh banner', bareMs),
          row('Berth: create call to Running', oursMs),
          row("Berth: an account's first launch, with its network", [first.readyMs]),
        ],
        verdicts: [
          {
            asked: `at most 15 % or 30 ms, the larger (here ${shown(allowed)} ms), over the bare engine`,
            measured: `${shown(over)} ms (${shown((100 * over) / median(bareMs))} %)`,
            met: over <= allowed,
          },
        ],
        notes: [
          `${rounds.retained} rounds, bare and Berth in turn, one launch at a time, each container removed before the next. Berth's status is read in its store every 2 ms, from within its process: such a poll of the API would take a tenth of the machine from the engine. The bare container's ssh is tried every ${POLL_MS} ms.`,
        ],
      };
    } finally {
      for (const id of living) await removed(berth, client, id).catch((error: unknown) => say(`  ${String(error)}`));
      await berth.child.stop();
    }
  },
};
