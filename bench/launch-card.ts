/**
 * What a card adds to a launch, over the same on the bare engine: a current Docker gives cards of
 * plain device nodes by CDI. `scripts/bench.mjs` starts it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { env } from 'node:process';
import Docker from 'dockerode';
import { instanceId as instanceIdOf } from '../src/domain/kernel/ids.ts';
import { endpointOf, makeDockerClient } from '../src/docker/docker-client.ts';
import { containerName } from '../src/engines/labels.ts';
import { copyDefaultImage } from '../test/fixtures/default-images.ts';
import { cdiSpec, makeNvidiaFolder } from '../test/world/cards.ts';
import type { Bench } from './bench.ts';
import { IMAGE_DEADLINE_MS, imageIsReady, launched, makeBare, removed, until, type Took } from './launch.ts';
import { startBerth } from './lib/berth.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';
import { simulated } from './lib/settings.ts';

const NODE_PORTS = { first: 28_200, last: 28_399 };
const FIRST_BARE_PORT = 28_500;
const ALLOWED_POINTS = 3;

export const launchCard: Bench = {
  title: 'a launch with a card against one without, each over the bare engine with the same devices',
  async run({ folder, flags }) {
    const { DOCKER_HOST: dockerHost = '', BERTH_TEST_CDI: cdi = '' } = env;
    if (cdi === '') throw new Error('needs a Docker of its own: npm run bench -- launch-card');
    const engine = makeDockerClient(endpointOf(dockerHost));
    const { docker } = engine;
    await copyDefaultImage(docker, 'notebook', new Docker({ socketPath: '/var/run/docker.sock' }));
    const nvidia = await makeNvidiaFolder();
    await writeFile(join(cdi, 'nvidia.json'), cdiSpec(nvidia.folder));
    env['PATH'] = `${nvidia.folder}:${env['PATH'] ?? ''}`;
    const settings = simulated(join(folder, 'data'), { engine: 'docker', dockerHost, nodePorts: NODE_PORTS });
    const berth = await startBerth(settings, 'any');
    try {
      const client = berth.client((await berth.login('admin')).token);
      await until(() => imageIsReady(client), IMAGE_DEADLINE_MS, 200, 'the default image is not Ready');
      const catalog = (await client.catalog()).instanceInfos.flatMap(({ regionInfos }) => regionInfos);
      const types = catalog.flatMap(({ instanceTypeInfos }) => instanceTypeInfos);
      const typeOf = (isIt: (type: (typeof types)[number]) => boolean): string => {
        const found = types.find(isIt);
        if (!found) throw new Error('no such type is offered');
        return found.instanceTypeId;
      };
      // Permanent: they keep the account's network, and are the models of the bare client.
      const models: string[] = [];
      const candidates: Record<string, () => Promise<Took>> = {};
      for (const [nth, [name, type]] of [
        ['without', typeOf(({ gpuNum }) => gpuNum === 0)] as const,
        ['with', typeOf(({ gpuNum, gpuSlice }) => gpuNum === 1 && gpuSlice === undefined)] as const,
      ].entries()) {
        const { id } = await launched(berth, client, type);
        models.push(id);
        const model = await docker.getContainer(containerName(instanceIdOf(id))).inspect();
        const bare = makeBare(docker, model, join(folder, name), FIRST_BARE_PORT + 250 * nth);
        await bare();
        candidates[`${name}, bare`] = bare;
        candidates[`${name}, Berth`] = async () => {
          const made = await launched(berth, client, type);
          await removed(berth, client, made.id);
          return { startedMs: Number.NaN, readyMs: made.readyMs };
        };
      }
      const rounds = flags.has('--short') ? 5 : 25;
      const measured = await alternate<Took>({ rounds, calibrator: null, say: () => {}, candidates });
      for (const id of models) await removed(berth, client, id);
      const msOf = (name: string): number[] => measured.of(name).map(({ readyMs }) => readyMs);
      const ratioOf = (name: string): number => median(msOf(`${name}, Berth`)) / median(msOf(`${name}, bare`));
      const points = 100 * (ratioOf('with') - ratioOf('without'));
      const row = (name: string): string[] => [
        `${name} a card`,
        spread(msOf(`${name}, bare`)),
        spread(msOf(`${name}, Berth`)),
        shown(ratioOf(name)),
      ];
      return {
        table: [
          ['ms: median [least-most]', 'bare: create call to ssh banner', 'Berth: create call to Running', 'ratio'],
          row('without'),
          row('with'),
        ],
        verdicts: [
          {
            asked: `a card adds at most ${ALLOWED_POINTS} points to what Berth takes over the bare engine`,
            measured: `${points.toFixed(1)} points`,
            met: points <= ALLOWED_POINTS,
          },
        ],
        notes: [
          `${measured.retained} rounds in turn, one launch at a time, as in \`launch\`, on the current Docker of the tests in a network namespace of its own. The card is a device node that every machine has, by CDI: neither its driver nor the hooks of its toolkit run. The ratio is of the medians.`,
        ],
      };
    } finally {
      await berth.child.stop();
      await nvidia.remove();
      engine.stop();
    }
  },
};
