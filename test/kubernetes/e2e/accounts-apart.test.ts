/**
 * Two accounts on one cluster: neither reaches the other; an account reaches its own instances. And
 * the account of Berth itself has no rights over the nodes.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { InputOf } from '../../../src/contract/routes.ts';
import { nodePortOf } from '../../fixtures/first-launch.ts';
import { until, type Client } from '../../fixtures/server-process.ts';
import { layoutOf } from '../cluster/addresses.ts';
import { NAMESPACE, startClusterServer, type ClusterServer } from './cluster-server.ts';

let scene: ClusterServer;
beforeAll(async () => {
  scene = await startClusterServer({
    image: 'busybox',
    addons: ['networkPolicy', 'storage', 'dns'],
    // The Services. The tests serve the outside at a private address.
    kubernetes: { closedRanges: ['10.97.0.0/16'] },
  });
});
afterAll(() => scene?.stop());

/** An instance that serves its name on port 8000, a node port, and on 9000, which is none. */
async function serving(client: Client): Promise<{ instanceId: string; pod: string; nodePort: number; node: string }> {
  const instanceId = await scene.launch(client, {
    nodePorts: [8000],
    startCommand: 'mkdir -p /srv/www; hostname >/srv/www/name; httpd -p 9000 -h /srv/www; httpd -f -p 8000 -h /srv/www',
  });
  const instance = await scene.reaches(client, instanceId, 'Running');
  const { address: node, nodePort } = nodePortOf(instance, 8000);
  const output = ['-o', 'jsonpath={.status.podIP}'];
  const pod = await scene.cluster.kubectl(['get', 'pod', `${instanceId}-0`, '-n', NAMESPACE, ...output]);
  return { instanceId, pod, nodePort, node };
}

const fetchFrom = async (client: Client, instanceId: string, host: string, port: number): Promise<string> => {
  const script = `printf 'GET /name HTTP/1.0\\r\\n\\r\\n' | nc -w 3 ${host} ${port} | tail -n 1`;
  return (await client.exec({ instanceId, command: ['sh', '-c', script] })).stdout.trim();
};

test('instances reach those of their account alone, by address, name and node port', async () => {
  const [ann, ben] = await Promise.all(['ann', 'ben'].map(async (name) => (await scene.account(name)).client));
  if (!ann || !ben) throw new Error('two accounts are needed');
  const [one, two, foreign] = await Promise.all([serving(ann), serving(ann), serving(ben)]);
  const service = (instanceId: string): string => `${instanceId}-0.${instanceId}.${NAMESPACE}.svc.cluster.local`;
  const answersOf = (client: Client, from: string, { instanceId, pod, node, nodePort }: typeof one) =>
    Promise.all(
      (
        [
          [pod, 8000],
          [pod, 9000],
          [service(instanceId), 9000],
          [node, nodePort],
        ] as const
      ).map(([host, port]) => fetchFrom(client, from, host, port)),
    );
  const name = `${two.instanceId}-0`;
  await until(
    () => answersOf(ann, one.instanceId, two),
    (answers) => answers.slice(0, 3).every((answer) => answer === name),
  );
  for (const own of [one, two]) {
    expect(await answersOf(ben, foreign.instanceId, own)).toEqual(['', '', '', '']);
    expect(await answersOf(ann, own.instanceId, foreign)).toEqual(['', '', '', '']);
  }
  // From outside, the node port is open and the other port is closed to everybody but the gateway.
  const direct = await fetch(`http://${two.node}:${two.nodePort}/name`);
  expect(await direct.text()).toBe(`${name}\n`);
});

test('open egress does not lead to nodes, the API server and Services', async () => {
  const { client } = await scene.account('fay');
  const { instanceId } = await serving(client);
  const { nodeAddress } = scene.cluster;
  const { apiServiceAddress } = layoutOf(scene.cluster.number);
  // Servers of TLS answer requests in plain text, too.
  for (const [host, port] of [
    [nodeAddress, 6443],
    [nodeAddress, 10_250],
    [apiServiceAddress, 443],
  ] as const)
    expect(await fetchFrom(client, instanceId, host, port), `${host}:${port}`).toBe('');
});

test('an account without egress reaches its own instances alone, and one with a list what it names', async () => {
  const outside = createServer((_request, response) => response.end('outside'));
  await new Promise<void>((resolve) => outside.listen(0, scene.cluster.nodeAddress.replace(/\d+$/, '1'), resolve));
  try {
    const { address: host, port } = outside.address() as AddressInfo;
    const { client: eve } = await scene.account('eve');
    const [one, two] = await Promise.all([serving(eve), serving(eve)]);
    const fetched = (): Promise<string> => fetchFrom(eve, one.instanceId, host, port);
    await until(fetched, (answer) => answer === 'outside');
    const set = (policy: InputOf<'setEgress'>['policy']) => scene.admin.setEgress({ account: 'eve', policy });
    await set({ mode: 'none' });
    await until(fetched, (answer) => answer === '');
    expect(await fetchFrom(eve, one.instanceId, two.pod, 9000)).toBe(`${two.instanceId}-0`);
    await set({ mode: 'list', allow: [{ cidr: host, ports: [String(port)] }] });
    await until(fetched, (answer) => answer === 'outside');
    await set({ mode: 'list', allow: [{ cidr: host, ports: [String(port - 1)] }] });
    await until(fetched, (answer) => answer === '');
  } finally {
    outside.close();
  }
});

test('the token of Berth makes no Pod with rights over its node', async () => {
  const podWith = (securityContext: object, more: object = {}): string =>
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'escape', namespace: NAMESPACE },
      spec: { ...more, containers: [{ name: 'main', image: 'registry.test/busybox:1', securityContext }] },
    });
  const create = (pod: string): Promise<string> =>
    scene.cluster.kubectl(['create', '-f', '-', '--dry-run=server', '--as=system:serviceaccount:berth:berth'], pod);
  expect(await create(podWith({}))).toContain('pod/escape created');
  const volumes = [{ name: 'node', hostPath: { path: '/' } }];
  for (const pod of [podWith({ privileged: true }), podWith({}, { hostPID: true }), podWith({}, { volumes })])
    await expect(create(pod)).rejects.toThrow(/violates PodSecurity "baseline/);
});
