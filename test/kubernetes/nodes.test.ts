/** A cluster of two nodes: one network, and volumes that one node has at a time. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../fixtures/server-process.ts';
import { startCluster, type Cluster } from './cluster/cluster.ts';
import { busyboxArchive } from './cluster/image-archive.ts';
import { claim, image, nodePortService, onlyFrom, pod, serves, sleeps } from './manifests.ts';
import { applets, pageOf, podTools } from './pod-tools.ts';
import { networkOf, nothing, remainsOf } from './remains.ts';

let cluster: Cluster;
let networks: string[];

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2, addons: ['storage', 'networkPolicy', 'dns'] });
  networks = await Promise.all(cluster.nodes.map(({ pid }) => networkOf(pid)));
  await cluster.importImage(await busyboxArchive(image, applets));
});

afterAll(() => cluster?.stop());

const { untilReady, inPod } = podTools(() => cluster);

test('joins Pods of two nodes by Pod addresses, Services, names and node ports', async () => {
  await cluster.apply(
    pod('first', { command: serves, node: 'node' }),
    pod('second', { command: serves, node: 'node-2' }),
    nodePortService('second', 30081),
  );
  for (const name of ['first', 'second']) await untilReady(name);
  const address = await cluster.kubectl(['get', 'pod', 'second', '-o', 'jsonpath={.status.podIP}']);
  const get = `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2`;
  for (const target of [`${address} 8080`, 'second.default.svc.cluster.local 80'])
    await until(
      () => inPod('first', `${get} ${target}`).catch(String),
      (said) => said.includes('second'),
    );
  expect(await inPod('second', 'nslookup second.default.svc.cluster.local')).toMatch(/Address.*: 10\.97\./);
  // This machine reaches the Pod, and the node port of either node.
  for (const url of [`http://${address}:8080`, ...cluster.nodes.map((node) => `http://${node.address}:30081`)])
    await until(
      () => pageOf(url),
      (page) => page === 'second\n',
    );
  await cluster.apply(onlyFrom('nobody', 'second'));
  await until(
    () => inPod('first', `${get} ${address} 8080`).catch(() => 'nothing'),
    (said) => said === 'nothing',
  );
});

test('refuses a volume to a node while another has it, and gives it afterwards', async () => {
  await cluster.apply(claim('data', '64Mi'), pod('writer', { command: sleeps, claim: 'data', node: 'node' }));
  await untilReady('writer');
  await inPod('writer', 'echo kept >/data/note && sync');
  await cluster.apply(pod('reader', { command: sleeps, claim: 'data', node: 'node-2' }));
  const events = ['get', 'events', '--field-selector=involvedObject.name=reader', '-o', 'jsonpath={.items[*].message}'];
  await until(
    () => cluster.kubectl(events),
    (messages) => messages.includes('Multi-Attach error'),
  );
  await cluster.kubectl(['delete', 'pod', 'writer']);
  await untilReady('reader');
  expect(await inPod('reader', 'cat /data/note')).toBe('kept\n');
});

test('leaves nothing of two nodes on the machine', async () => {
  const [, second = ''] = networks;
  expect((await remainsOf(cluster.number, second)).folders).toHaveLength(2);
  await cluster.stop();
  for (const network of networks) expect(await remainsOf(cluster.number, network)).toEqual(nothing);
});
