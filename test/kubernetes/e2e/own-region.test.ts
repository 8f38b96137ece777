/** The server's own region is the cluster of its service account, as in a Pod. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../../fixtures/server-process.ts';
import { startClusterServer, type ClusterServer } from './cluster-server.ts';

let scene: ClusterServer;
beforeAll(async () => {
  scene = await startClusterServer({ image: 'busybox', addons: ['storage'], isOwnRegion: true });
});
afterAll(() => scene?.stop());

test('it offers types that a node can hold, overcommits as its file says, and launches', async () => {
  const { admin: client } = scene;
  const { types } = await client.listTypes({ pager: { currentPage: 1, pageSize: 100 } });
  const nodeCores = Number(
    await scene.cluster.kubectl(['get', 'nodes', '-o', 'jsonpath={.items[0].status.capacity.cpu}']),
  );
  const own = types.filter(({ name }) => name.startsWith('cpu.'));
  expect(own.map(({ cpuCores }) => cpuCores)).toEqual([1, 2, 4, 8, 16, 32, 64].filter((cores) => cores <= nodeCores));
  // Twice the processors of the node.
  const wide = await scene.createType({ name: 'wide', cpuCores: nodeCores * 2 });
  const instanceId = await scene.launch(client, { instanceTypeId: wide });
  await scene.reaches(client, instanceId, 'Running');
  const { stdout } = await client.exec({ instanceId, command: ['hostname'] });
  expect(stdout).toBe(`${instanceId}-0\n`);
  await scene.server.kill('SIGKILL');
  await scene.server.start();
  await until(
    () => client.exec({ instanceId, command: ['hostname'] }).catch(() => null),
    (answer) => answer?.stdout === stdout,
  );
  await client.terminate({ instanceId });
  await scene.reaches(client, instanceId, 'Cleaned');
});
