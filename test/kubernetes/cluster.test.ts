/** The cluster of the tests: that it is a real Kubernetes, and that nothing of it stays. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { longTest } from '../fixtures/long-test.ts';
import { until } from '../fixtures/server-process.ts';
import { startCluster, type Cluster } from './cluster/cluster.ts';
import { busyboxArchive } from './cluster/image-archive.ts';
import { claim, image, nodePortService, onlyFrom, pod, serves, sleeps, snapshot } from './manifests.ts';
import { applets, pageOf, podTools } from './pod-tools.ts';
import { networkOf, nothing, remainsOf } from './remains.ts';

let cluster: Cluster;
let network: string;

beforeAll(async () => {
  cluster = await startCluster();
  network = await networkOf(cluster.nodePid);
  await cluster.importImage(await busyboxArchive(image, applets));
});

afterAll(() => cluster?.stop());

const { untilReady, inPod } = podTools(() => cluster);

test('runs a Pod that answers by a node port, exec and log', async () => {
  await cluster.apply(pod('web', { command: serves }), nodePortService('web', 30080));
  await untilReady('web');
  await until(
    () => pageOf(`http://${cluster.nodeAddress}:30080`),
    (page) => page === 'web\n',
  );
  expect(await inPod('web', 'hostname')).toBe('web\n');
  await expect(inPod('web', 'exit 7')).rejects.toThrow('exit code 7');
  expect(await cluster.kubectl(['logs', 'web'])).toBe('serving\n');
  // By CoreDNS.
  expect(await inPod('web', 'nslookup web.default.svc.cluster.local')).toMatch(/Address.*: 10\.97\./);
});

test('binds a claim, grows it while it is mounted, and restores a snapshot', async () => {
  await cluster.apply(claim('data', '64Mi'), pod('writer', { command: sleeps, claim: 'data' }));
  await untilReady('writer');
  const sizeMiB = async (): Promise<number> => Number((await inPod('writer', 'df -m /data')).split(/\s+/)[8]);
  const before = await sizeMiB();
  expect(before).toBeLessThan(64);
  await cluster.apply(claim('data', '128Mi'));
  await until(sizeMiB, (size) => size > before + 32);

  await inPod('writer', 'echo first >/data/note && sync');
  await cluster.apply(snapshot('first', 'data'));
  await cluster.kubectl(['wait', 'volumesnapshot/first', '--for=jsonpath={.status.readyToUse}=true', '--timeout=120s']);
  await inPod('writer', 'echo second >/data/note');
  await cluster.apply(claim('restored', '128Mi', 'first'), pod('reader', { command: sleeps, claim: 'restored' }));
  await untilReady('reader');
  expect(await inPod('reader', 'cat /data/note')).toBe('first\n');
});

test('drops what a NetworkPolicy does not allow', async () => {
  await cluster.apply(
    pod('server', { command: serves }),
    pod('friend', { command: sleeps }),
    pod('other', { command: sleeps }),
  );
  for (const name of ['server', 'friend', 'other']) await untilReady(name);
  const address = await cluster.kubectl(['get', 'pod', 'server', '-o', 'jsonpath={.status.podIP}']);
  const asks = (name: string): Promise<string> =>
    inPod(name, `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 ${address} 8080`).catch(() => 'nothing');
  await until(
    () => asks('other'),
    (said) => said.includes('server'),
  );
  await cluster.apply(onlyFrom('friend', 'server'));
  await until(
    () => asks('other'),
    (said) => said === 'nothing',
  );
  expect(await asks('friend')).toContain('server');
});

longTest('measures Pods', async () => {
  await until(
    () => cluster.kubectl(['top', 'pod', 'web', '--no-headers']).catch(String),
    (said) => /^web +\d+m +\d+Mi/.test(said),
  );
});

longTest('finds a lost node, whose containers run on, and takes it back', async () => {
  const ready = (): Promise<string> =>
    cluster.kubectl(['get', 'node', 'node', '-o', 'jsonpath={.status.conditions[?(@.type=="Ready")].status}']);
  const address = await cluster.kubectl(['get', 'pod', 'web', '-o', 'jsonpath={.status.podIP}']);
  await cluster.kill('kubelet', 'containerd');
  await until(ready, (status) => status === 'Unknown');
  expect(await pageOf(`http://${address}:8080`)).toBe('web\n');
  await cluster.start('containerd', 'kubelet');
  expect(await ready()).toBe('True');
  await until(
    () => inPod('web', 'hostname').catch(String),
    (said) => said === 'web\n',
  );
  const restarts = ['get', 'pod', 'web', '-o', 'jsonpath={.status.containerStatuses[0].restartCount}'];
  expect(await cluster.kubectl(restarts)).toBe('0');
});

longTest('keeps its objects when the API server and etcd are killed', async () => {
  const page = (): Promise<string> => pageOf(`http://${cluster.nodeAddress}:30080`);
  await until(page, (text) => text === 'web\n');
  await cluster.kill('kube-apiserver');
  await expect(cluster.request('GET', '/readyz')).rejects.toThrow();
  expect(await page()).toBe('web\n');
  await cluster.start('kube-apiserver');
  await cluster.kill('etcd');
  await cluster.start('etcd');
  expect(await inPod('web', 'hostname')).toBe('web\n');
});

longTest('runs simulated Pods on simulated nodes', async () => {
  await cluster.simulateNodes(2);
  const simulated = { nodeSelector: { type: 'kwok' }, tolerations: [{ operator: 'Exists' }] };
  const names = Array.from({ length: 40 }, (_, at) => `simulated-${at}`);
  await cluster.apply(
    ...names.map((name) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels: { app: 'simulated' } },
      spec: { ...simulated, containers: [{ name: 'main', image: 'absent.test/none:1' }] },
    })),
  );
  const list = ['get', 'pods', '--selector=app=simulated', '-o', 'jsonpath={.items[*].status.phase}'];
  await until(
    () => cluster.kubectl(list),
    (phases) => phases === names.map(() => 'Running').join(' '),
  );
});

test('refuses a number that runs already', async () => {
  await expect(startCluster({ number: cluster.number })).rejects.toThrow(`${cluster.number} runs already`);
});

test('leaves nothing on the machine', async () => {
  const running = await remainsOf(cluster.number, network);
  expect(running.interfaces).toHaveLength(1);
  expect(running.routes).toHaveLength(1);
  expect(running.folders).toHaveLength(1);
  expect(running.controlGroups.length).toBeGreaterThan(0);
  expect(running.processes.length).toBeGreaterThan(10);
  expect(running.loopDevices.length).toBeGreaterThan(1);
  await cluster.stop();
  expect(await remainsOf(cluster.number, network)).toEqual(nothing);
});
