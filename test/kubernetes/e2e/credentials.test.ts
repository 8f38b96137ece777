/** Credentials of a cluster that end while all runs, and regions without their namespace. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../../fixtures/server-process.ts';
import { HOME_NAMESPACE, startClusterServer, type ClusterServer } from './cluster-server.ts';

const REFUSED = /refuses the credentials of this region, .*administrator replaces them/;
const pager = { currentPage: 1, pageSize: 10 };

let scene: ClusterServer;

beforeAll(async () => {
  scene = await startClusterServer({ image: 'busybox', addons: ['storage'], reach: 'portForward' });
});
afterAll(() => scene?.stop());

const managed = async () => {
  const { regions } = await scene.admin.listManagedRegions({ pager });
  const found = regions.find(({ regionId }) => regionId === scene.region);
  if (!found?.settings) throw new Error('the region of the cluster is not listed');
  return { ...found, settings: found.settings };
};

const replace = async (credentials: string): Promise<unknown> => {
  const { version } = await managed();
  return scene.admin.updateRegion({ regionId: scene.region, version, dryRun: false, credentials });
};

const createToken = async (...options: string[]): Promise<string> =>
  (await scene.cluster.kubectl(['create', 'token', 'berth', '-n', HOME_NAMESPACE, ...options])).trim();

test('credentials that ended are named everywhere, and replaced while all runs', async () => {
  const { admin: client, cluster, server } = scene;
  await cluster.kubectl(['create', 'secret', 'generic', 'login', '-n', HOME_NAMESPACE]);
  await replace(await createToken('--bound-object-kind=Secret', '--bound-object-name=login'));
  const instanceId = await scene.launch(client, { nodePorts: [8000], startCommand: 'httpd -f -p 8000 -h /etc/berth' });
  await scene.reaches(client, instanceId, 'Running');
  const host = async (): Promise<string> =>
    (await client.exec({ instanceId, command: ['sh', '-c', 'hostname; cat /proc/sys/kernel/random/boot_id'] })).stdout;
  const before = await host();
  const pod = ['get', 'pod', `${instanceId}-0`, '-n', 'berth-instances', '-o', 'jsonpath={.metadata.uid}'];
  const uid = await cluster.kubectl(pod);

  // Tokens that are bound to it end with it.
  await cluster.kubectl(['delete', 'secret', 'login', '-n', HOME_NAMESPACE]);
  await until(
    async () => (await client.listRegions()).regions.find(({ regionId }) => regionId === scene.region),
    (region) => REFUSED.test(JSON.stringify(region)),
  );
  const waiting = await scene.launch(client);
  const { instance } = await until(
    () => client.getInstance({ instanceId: waiting }),
    ({ instance: now }) => now.instanceRuntimeInfo.diagnosisReason !== '',
  );
  expect(instance.instanceRuntimeInfo.diagnosisMessage).toMatch(REFUSED);
  await expect(client.exec({ instanceId, command: ['true'] })).rejects.toThrow(REFUSED);

  await replace(await createToken());
  await scene.reaches(client, waiting, 'Running');
  await scene.reaches(client, instanceId, 'Running');
  expect(await host()).toBe(before);
  expect(await cluster.kubectl(pod)).toBe(uid);
  await until(
    async () => (await fetch(`${server.gatewayUrl}/forward/${instanceId}/8000/name`)).text().catch(String),
    (text) => text.includes('e2e'),
  );
  const { periods } = await client.listUsagePeriods({ pager: { currentPage: 1, pageSize: 50 } });
  const charged = periods.filter(
    (one) => one.instanceId === instanceId && one.meter === 'compute' && one.state === 'charged',
  );
  expect(charged, 'it ran on').toHaveLength(1);
});

test('a region whose namespace is not there is refused by that reason', async () => {
  const { settings, sshAddress: address } = await managed();
  const nowhere = { ...settings, kubernetes: settings.kubernetes && { ...settings.kubernetes, namespace: 'nowhere' } };
  const made = { name: 'lost', value: 'lost', location: 'here', sshAddress: address, settings: nowhere };
  await expect(scene.admin.createRegion({ ...made, credentials: await createToken() })).rejects.toThrow(
    /the cluster has no namespace nowhere; create it/,
  );
});
