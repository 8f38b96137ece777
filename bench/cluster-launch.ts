/**
 * Launch time in a region that is a Kubernetes cluster, from the create call to `Running`, against
 * a client that creates the same Pod with its claim and Secret. `Running` means that ssh answers,
 * so the bare client waits for ssh's banner too.
 */
import { Readable } from 'node:stream';
import Docker from 'dockerode';
import { z } from 'zod';
import { objectName } from '../src/engines/kubernetes/manifests/object-names.ts';
import { instanceId } from '../src/domain/kernel/ids.ts';
import { ensureDefaultImage } from '../test/fixtures/default-images.ts';
import { startCluster, type Cluster } from '../test/kubernetes/cluster/cluster.ts';
import type { Bench } from './bench.ts';
import { banner, launched, LAUNCH_DEADLINE_MS, removed, until } from './launch.ts';
import { startBerth } from './lib/berth.ts';
import { addClusterRegion, IMAGE, NAMESPACE } from './lib/cluster-region.ts';
import { median, percentile, shown, spread } from './lib/numbers.ts';
import { alternate } from './lib/rounds.ts';
import { simulated } from './lib/settings.ts';

const POLL_MS = 5;
const OVER_SHARE = 0.15;
const OVER_MS = 50;

const objectsUrl = (kind: string): string => `/api/v1/namespaces/${NAMESPACE}/${kind}`;
const object = z.object({ spec: z.record(z.string(), z.unknown()).default({}), data: z.unknown().optional() });
const volumes = z.array(z.object({ persistentVolumeClaim: z.object({ claimName: z.string() }).optional() }));
const podStatus = z.object({ status: z.object({ podIP: z.string().optional() }) });

/** Bare client: creates copies of the Pod, claim and Secret of an instance under other names. */
async function makeBare({ request }: Cluster, id: string) {
  const get = async (kind: string, name: string) =>
    object.parse((await request('GET', `${objectsUrl(kind)}/${name}`)).body);
  const secret = objectName(instanceId(id));
  const pod = await get('pods', `${secret}-0`);
  const claim =
    volumes.parse(pod.spec['volumes']).flatMap((one) => one.persistentVolumeClaim?.claimName ?? [])[0] ?? '';
  const { data } = await get('secrets', secret);
  const { accessModes, resources, storageClassName } = (await get('persistentvolumeclaims', claim)).spec;
  const { nodeName: _node, hostname: _hostname, subdomain: _subdomain, ...podSpec } = pod.spec;
  let count = 0;
  return async (): Promise<number> => {
    const name = `bare-${count++}`;
    const spec: unknown = JSON.parse(
      JSON.stringify(podSpec).replaceAll(`"${secret}"`, `"${name}"`).replaceAll(`"${claim}"`, `"${name}"`),
    );
    const objects: [string, object][] = [
      ['secrets', { data }],
      ['persistentvolumeclaims', { spec: { accessModes, resources, storageClassName } }],
      ['pods', { spec }],
    ];
    const beganMs = performance.now();
    try {
      for (const [kind, object] of objects) {
        const made = await request('POST', objectsUrl(kind), { ...object, metadata: { name } });
        if (made.status !== 201) throw new Error(`${kind}: ${made.status} ${JSON.stringify(made.body)}`);
      }
      let address = '';
      const isAddressed = async (): Promise<boolean> => {
        address = podStatus.parse((await request('GET', `${objectsUrl('pods')}/${name}`)).body).status.podIP ?? '';
        return address !== '';
      };
      await until(isAddressed, LAUNCH_DEADLINE_MS, POLL_MS, 'the bare Pod has no address');
      await until(() => banner(address), LAUNCH_DEADLINE_MS, POLL_MS, 'the bare Pod has no ssh');
      return performance.now() - beganMs;
    } finally {
      for (const [kind] of objects) await request('DELETE', `${objectsUrl(kind)}/${name}?gracePeriodSeconds=0`);
      const isGone = async (): Promise<boolean> =>
        (await request('GET', `${objectsUrl('persistentvolumeclaims')}/${name}`)).status === 404;
      await until(isGone, LAUNCH_DEADLINE_MS, 50, 'the bare claim is not gone');
    }
  };
}

async function importDefaultImage(cluster: Cluster): Promise<void> {
  const docker = new Docker();
  const ref = await ensureDefaultImage(docker, 'notebook');
  const at = IMAGE.lastIndexOf(':');
  await docker.getImage(ref).tag({ repo: IMAGE.slice(0, at), tag: IMAGE.slice(at + 1) });
  await cluster.importImage(new Readable().wrap(await docker.getImage(IMAGE).get()));
  await docker.getImage(IMAGE).remove();
}

export const clusterLaunch: Bench = {
  title: 'a launch on a Kubernetes cluster, image present: create call to Running, one at a time',
  async run({ folder, flags, say }) {
    const cluster = await startCluster({ addons: ['networkPolicy', 'storage'] });
    const berth = await startBerth(simulated(folder), 'any');
    try {
      say('  importing the image');
      await importDefaultImage(cluster);
      const { token } = await berth.login('admin');
      const client = berth.client(token);
      berth.example = await addClusterRegion(client, { cluster, size: { cpuCores: 1, memoryGB: 2 } });
      // Stays: keeps the objects of the account, and is the model of the bare client.
      const first = await launched(berth, client);
      const bare = await makeBare(cluster, first.id);
      const ours = async (): Promise<number> => {
        const { id, readyMs } = await launched(berth, client);
        await removed(berth, client, id);
        return readyMs;
      };
      await bare();
      await ours();
      const rounds = await alternate<number>({
        rounds: flags.has('--short') ? 3 : 15,
        calibrator: null,
        say: () => {},
        candidates: { bare, ours },
      });
      const [bareMs, oursMs] = [rounds.of('bare'), rounds.of('ours')];
      const over = median(oursMs) - median(bareMs);
      const allowed = Math.max(OVER_MS, OVER_SHARE * median(bareMs));
      const row = (text: string, values: number[]): string[] => [text, spread(values), shown(percentile(values, 0.95))];
      await removed(berth, client, first.id);
      return {
        table: [
          ['', 'ms: median [least-most]', '95 of 100 within'],
          row('bare client: create calls to ssh banner', bareMs),
          row('Berth: create call to Running', oursMs),
          row("Berth: an account's first launch", [first.readyMs]),
        ],
        verdicts: [
          {
            asked: `at most 15 % or 50 ms, the larger (here ${shown(allowed)} ms), over the bare client`,
            measured: `${shown(over)} ms (${shown((100 * over) / median(bareMs))} %)`,
            met: over <= allowed,
          },
        ],
        notes: [
          `${rounds.retained} rounds, bare and Berth in turn, one launch at a time, each removed before the next, on a cluster of one node on this machine (\`test/kubernetes\`), with its network policies and storage driver. The bare client creates Secret, claim and Pod without a wait between, and asks for the Pod's address and its banner every ${POLL_MS} ms.`,
        ],
      };
    } finally {
      await berth.child.stop();
      await cluster.stop();
    }
  },
};
