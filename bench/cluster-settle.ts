/**
 * A region that is a Kubernetes cluster with 1,000 running instances: time and calls until every
 * row says what the list of Pods says, after `kill -9` of Berth; calls at rest. The nodes are
 * simulated by KWOK; this process answers for ssh in the Pods.
 */
import { createServer } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { instanceId as instanceIdOf } from '../src/domain/kernel/ids.ts';
import { podName } from '../src/engines/kubernetes/manifests/object-names.ts';
import { startCluster, type Cluster } from '../test/kubernetes/cluster/cluster.ts';
import type { Bench } from './bench.ts';
import { until } from './launch.ts';
import { launchBody, startBerth, type Berth } from './lib/berth.ts';
import { addClusterRegion, IMAGE, NAMESPACE } from './lib/cluster-region.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { simulated } from './lib/settings.ts';
import { forEachConcurrently, listStatuses } from './settle.ts';

const CHANGED_SHARE = 0.1;
const NODES = 4;
const DEADLINE_MS = 600_000;
/** A look lists all rows, which takes the server's time from what is measured. */
const POLL_MS = 500;
const REST_MS = 180_000;
const MINUTE_MS = 60_000;
const SETTLED_MS = 20_000;
const CALLS_EACH = 3;
const CALLS_AT_REST = 5;
const SSH_PORT = 22;
const STORAGE = 'simulated';

type Client = ReturnType<Berth['client']>;

const podList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), deletionTimestamp: z.string().optional() }),
      status: z.object({ phase: z.string().optional() }),
    }),
  ),
});

async function runningPods({ request }: Cluster): Promise<Set<string>> {
  const { items } = podList.parse((await request('GET', `/api/v1/namespaces/${NAMESPACE}/pods`)).body);
  const running = items.filter(({ metadata, status }) => !metadata.deletionTimestamp && status.phase === 'Running');
  return new Set(running.map(({ metadata }) => metadata.name));
}

/** Whether each row has the status that was requested, and says what the list of Pods says. */
async function isSettled(cluster: Cluster, client: Client, desired: ReadonlyMap<string, string>): Promise<boolean> {
  const statuses = await listStatuses(client);
  if (![...desired].every(([id, status]) => statuses.get(id) === status)) return false;
  const pods = await runningPods(cluster);
  return [...desired].every(([id, status]) => pods.has(podName(instanceIdOf(id))) === (status === 'Running'));
}

/** Volumes that the cluster binds at once; simulated Pods need no folder behind their claims. */
async function addVolumes({ apply }: Cluster, count: number): Promise<void> {
  await apply(
    {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name: STORAGE },
      provisioner: 'kubernetes.io/no-provisioner',
      volumeBindingMode: 'Immediate',
    },
    ...Array.from({ length: count }, (_, index) => ({
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: `${STORAGE}-${index}` },
      spec: {
        storageClassName: STORAGE,
        capacity: { storage: '100Gi' },
        accessModes: ['ReadWriteOnce'],
        hostPath: { path: '/tmp' },
      },
    })),
  );
}

const calls = (berth: Berth): Promise<number> => berth.child.ask('http requests', z.number());

async function answerSsh(): Promise<() => void> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end('SSH-2.0-bench\r\n');
  });
  server.listen(SSH_PORT, '0.0.0.0');
  await once(server, 'listening');
  return () => server.close();
}

export const clusterSettle: Bench = {
  title: 'a cluster with 1,000 simulated instances: `kill -9` of Berth, and rest',
  async run({ folder, flags, say }) {
    const isShort = flags.has('--short');
    const [count, kills, restMs] = isShort ? [100, 1, MINUTE_MS] : [1_000, 5, REST_MS];
    const settings = simulated(folder);
    const cluster = await startCluster({ addons: [] });
    const stopSsh = await answerSsh();
    let berth = await startBerth(settings, 'any');
    try {
      await cluster.simulateNodes(NODES);
      await addVolumes(cluster, count + 1);
      // A simulated node has none; that of the real node only takes processor time of the server.
      await cluster.kill('kube-proxy');
      const { token } = await berth.login('admin');
      let client = berth.client(token);
      const example = await addClusterRegion(client, {
        cluster,
        engine: {
          nodeSelector: { type: 'kwok' },
          tolerations: [{ operator: 'Exists' }],
        },
        storage: STORAGE,
        size: { cpuCores: 0.1, memoryGB: 0.125 },
      });
      const body = { ...launchBody({ example }), nodePorts: [] };
      const desired = new Map<string, string>();
      say(`  launching ${count} of ${IMAGE}`);
      await forEachConcurrently(Array.from({ length: count }), async () => {
        desired.set((await client.launch(body)).instanceId, 'Running');
      });
      const settled = (): Promise<void> =>
        until(() => isSettled(cluster, client, desired), DEADLINE_MS, POLL_MS, 'not each row is as its Pod');
      await settled();
      const [settledMs, callsEach]: [number[], number[]] = [[], []];
      for (let round = 0; round < kills; round++) {
        say(`  kill ${round + 1} of ${kills}`);
        const changed = Math.round(count * CHANGED_SHARE);
        const some = [...desired].slice(round * changed, (round + 1) * changed);
        await forEachConcurrently(some, async ([instanceId, status]) => {
          await (status === 'Running' ? client.stop({ instanceId }) : client.start({ instanceId }));
          desired.set(instanceId, status === 'Running' ? 'Stopped' : 'Running');
        });
        process.kill(berth.child.pid, 'SIGKILL');
        await berth.child.stop();
        const beganMs = performance.now();
        berth = await startBerth(settings, 'any');
        client = berth.client(token);
        await settled();
        settledMs.push(performance.now() - beganMs);
        callsEach.push((await calls(berth)) / count);
        say(`  settled after ${shown((settledMs.at(-1) ?? 0) / 1_000)} s, ${shown(callsEach.at(-1) ?? 0)} calls each`);
      }
      say('  at rest');
      await sleep(MINUTE_MS);
      const before = await calls(berth);
      await sleep(restMs);
      const aMinute = ((await calls(berth)) - before) / (restMs / MINUTE_MS);
      const most = { settledMs: Math.max(...settledMs), calls: Math.max(...callsEach) };
      return {
        table: [
          ['', 'median [least-most]'],
          ['after kill -9: s until each row is as its Pod and as requested', spread(settledMs.map((ms) => ms / 1_000))],
          ['calls of the API server for each instance until then', spread(callsEach)],
          ['calls a minute at rest', shown(aMinute)],
        ],
        verdicts: [
          {
            asked: 'settled in 20 s',
            measured: `${shown(most.settledMs / 1_000)} s at most, median ${shown(median(settledMs) / 1_000)}`,
            met: most.settledMs < SETTLED_MS,
          },
          {
            asked: 'under 3 calls an instance',
            measured: `${shown(most.calls)} at most, median ${shown(median(callsEach))}`,
            met: most.calls < CALLS_EACH,
          },
          { asked: 'at most 5 calls a minute at rest', measured: shown(aMinute), met: aMinute <= CALLS_AT_REST },
        ],
        notes: [
          `${count} instances on ${NODES} nodes of KWOK, each with a bound claim; ${CHANGED_SHARE * 100} % are being stopped or started as the server is killed, and time counts from the start of the next server. Calls are all HTTP requests of the server's process; watches count when they begin. At rest: ${restMs / MINUTE_MS} minutes, from a minute after the last change.`,
        ],
      };
    } finally {
      await berth.child.stop();
      stopSsh();
      await cluster.stop();
    }
  },
};
