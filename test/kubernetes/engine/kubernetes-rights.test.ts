/** The role of `deploy/kubernetes/rbac.yaml` is enough, and a missing verb is named. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Engine } from '../../../src/engines/contract.ts';
import { makeKubernetesEngine } from '../../../src/engines/kubernetes/kubernetes.ts';
import { openCluster } from '../../../src/kubernetes/cluster.ts';
import { deadline, expectFault, makeSubject, until, type Subject } from '../../conformance/subject.ts';
import { makeKubernetesFixture, type KubernetesFixture } from './kubernetes-fixture.ts';

const ROLE = path.join(import.meta.dirname, '../../../deploy/kubernetes/rbac.yaml');

let fixture: KubernetesFixture;
let subject: Subject;
let engine: Engine;

beforeAll(async () => {
  fixture = await makeKubernetesFixture({ joinsNetworks: true });
  const { cluster, settings, installation } = fixture;
  const { namespace } = settings;
  const role = (await readFile(ROLE, 'utf8')).replaceAll(/namespace: berth(-instances)?$/gm, `namespace: ${namespace}`);
  await cluster.kubectl(['apply', '-n', namespace, '-f', '-'], role);
  const token = (await cluster.kubectl(['create', 'token', 'berth', '-n', namespace])).trim();
  const credentials = { kind: 'token', apiUrl: cluster.apiUrl, ca: cluster.ca, token } as const;
  const client = await openCluster({ credentials, namespace });
  const log = { debug: () => {}, info: () => {}, warn: () => {} };
  engine = makeKubernetesEngine({
    cluster: client,
    installation,
    settings: { ...settings, reach: 'portForward' },
    checkImage: fixture.imageRef,
    log,
  });
  subject = makeSubject({ ...fixture, engine });
});

afterAll(async () => {
  await subject?.clear();
  await engine?.stop();
  await fixture?.stop();
});

test('is enough for every verb', async () => {
  const imageCredentials = { username: 'a', secret: 'b' };
  const nodePorts = [{ port: 7000, nodePort: await fixture.releaseNodePort() }];
  const spec = { ...subject.spec({ nodePorts }), imageCredentials };
  await engine.probe(deadline());
  expect(await engine.check?.(deadline())).toEqual([]);
  await engine.ensureImage(fixture.imageRef, () => {}, deadline(), imageCredentials);
  await subject.ensure(spec);
  await subject.ensure({
    ...spec,
    generation: 2,
    files: [...spec.files, { name: 'note', content: 'new', mode: 0o644 }],
  });
  expect((await subject.exec(spec.id, 'cat', '/etc/berth/note')).stdout).toBe('new');
  (await subject.dial(spec.id, 7000)).destroy();
  const network = await engine.joinNetwork(spec.id, deadline());
  (await network.connect({ host: '127.0.0.1', port: 7000 }, deadline())).destroy();
  network.close();
  await Array.fromAsync(await engine.logs(spec.id, 'console', {}, deadline()));
  const usage = await engine.usage([spec.id], deadline());
  expect(usage.get(spec.id)?.memoryBytes).toBeGreaterThan(0);
  await engine.setEgress({ default: { mode: 'none' }, accounts: new Map() }, deadline());
  expect(await subject.owned(spec.ownerId)).toHaveLength(2);
  await engine.halt(spec.id, 1_000, deadline());
  await engine.setEgress({ default: { mode: 'open' }, accounts: new Map() }, deadline());
  await engine.destroy(spec.id, deadline());
  expect(await engine.listOwned(deadline())).toEqual([]);
});

test('a namespace that is not there is named', async () => {
  const { cluster, settings } = fixture;
  const credentials = { kind: 'token', apiUrl: cluster.apiUrl, ca: cluster.ca, token: cluster.token } as const;
  const client = await openCluster({ credentials, namespace: 'nowhere' });
  const elsewhere = makeKubernetesEngine({ cluster: client, installation: 'i', settings, log: { debug: () => {} } });
  const fault = await expectFault(elsewhere.check?.(deadline()) ?? expect.fail(), 'rejected');
  expect(fault.message).toContain('the cluster has no namespace nowhere');
  await elsewhere.stop();
});

test('a network that enforces no policies is named', async () => {
  await fixture.cluster.kill('network-policy');
  const fault = await expectFault(engine.check?.(deadline()) ?? expect.fail(), 'rejected');
  expect(fault.message).toMatch(
    /^a Pod that a policy closes connects to the API server: the network of the cluster does/,
  );
  await fixture.cluster.start('network-policy');
});

describe('without one verb', () => {
  /** Index of the rule in the role. */
  const cases = [
    { rule: 0, verb: 'create', says: 'create statefulsets of apps' },
    // Both are applied at once.
    { rule: 2, verb: 'patch', says: 'patch (secrets|services)' },
    { rule: 3, verb: 'get', says: 'get networkpolicies of networking.k8s.io' },
  ];

  test.for(cases)('the reason is that the role lacks: $says', async ({ rule, verb, says }) => {
    const { cluster, settings } = fixture;
    const role = ['role', 'berth', '-n', settings.namespace];
    const verbs = JSON.parse(
      await cluster.kubectl(['get', ...role, '-o', `jsonpath={.rules[${rule}].verbs}`]),
    ) as string[];
    const set = (value: string[]): Promise<string> =>
      cluster.kubectl([
        'patch',
        ...role,
        '--type=json',
        '-p',
        JSON.stringify([{ op: 'replace', path: `/rules/${rule}/verbs`, value }]),
      ]);
    await set(verbs.filter((one) => one !== verb));
    try {
      // The server learns of a changed role a moment later.
      const fault = await until('the verb is refused', async () => {
        const spec = subject.spec();
        const refused = await subject.ensure(spec).catch((error: unknown) => error);
        return refused instanceof Error && refused;
      });
      const ours = await expectFault(Promise.reject(fault), 'rejected');
      expect(ours.retry).toBe(true);
      const { namespace } = settings;
      const text = `^the cluster does not allow system:serviceaccount:${namespace}:berth to ${says} in namespace ${namespace}; add the verb to its role$`;
      expect(ours.message).toMatch(new RegExp(text));
    } finally {
      await set(verbs);
      const spec = subject.spec();
      await until('the verb is back', async () =>
        subject.ensure(spec).then(
          () => true,
          () => false,
        ),
      );
    }
  });
});
