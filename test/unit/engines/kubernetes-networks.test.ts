/** NetworkPolicies of accounts, against a stand-in for the API server. */
import { expect, test } from 'vitest';
import type { EgressPolicies, EgressPolicy } from '../../../src/domain/regions/egress.ts';
import { instanceIdOf, userId } from '../../../src/domain/kernel/ids.ts';
import type { KubernetesEngineSettings } from '../../../src/domain/regions/kubernetes-settings.ts';
import { ensureAccountNetwork } from '../../../src/engines/kubernetes/account-networks.ts';
import { makeKubernetesEngine } from '../../../src/engines/kubernetes/kubernetes.ts';
import { accountPolicy } from '../../../src/engines/kubernetes/manifests/network-rules.ts';
import { deadline, expectFault } from '../../conformance/subject.ts';
import { startApiServer } from '../../fixtures/api-server.ts';

const ownerId = userId('33333333-3333-4333-8333-333333333333');
const installation = 'i-1';
const settings: KubernetesEngineSettings = {
  login: 'inCluster',
  namespace: 'berth',
  reach: 'podAddress',
  networkPolicies: true,
  userNamespaces: false,
};
/** A cluster whose nodes are unknown, and no gateway. */
const alone = { closedRanges: async () => [], gatewayPorts: [] };
const policies = (egress: EgressPolicy): EgressPolicies => ({
  default: { mode: 'open' },
  accounts: new Map([[ownerId, egress]]),
});

/** Rules that the cluster is sent for an account that had none to connect to. */
async function sentRules(known: EgressPolicies | null) {
  const options = { installation, ownerId, nameServers: [], settings, closed: [], gatewayPorts: [] };
  const present = accountPolicy({ ...options, egress: { mode: 'none' } });
  const { cluster, calls } = await startApiServer({ answer: () => ({ body: present }) });
  const context = { cluster, installation, settings, egress: { policies: known }, ...alone };
  await ensureAccountNetwork(context, ownerId, deadline());
  return calls.filter(({ method }) => method === 'PATCH').map(({ body }) => body);
}

test('a driver that knows no policies yet leaves the rules of an account as they are', async () => {
  expect(await sentRules(null)).toEqual([]);
  expect(await sentRules(policies({ mode: 'none' }))).toEqual([]);
  const [opened] = await sentRules(policies({ mode: 'open' }));
  expect(opened).toMatchObject({ spec: { egress: expect.arrayContaining([]) } });
});

test('an account whose policy the network does not enforce gets no instances, and others do', async () => {
  const { cluster } = await startApiServer({
    answer: ({ body, path }) => (path.endsWith('/nodes') ? { body: { items: [] } } : body ? { body } : { status: 404 }),
  });
  const unenforced = { ...settings, networkPolicies: false };
  const known = policies({ mode: 'none' });
  const engine = makeKubernetesEngine({ cluster, installation, settings: unenforced, log: { debug: () => {} } });
  await expectFault(engine.setEgress(known, deadline()), 'rejected');
  const spec = {
    id: instanceIdOf('44444444-4444-4444-8444-444444444444'),
    ownerId,
    generation: 1,
    hostname: 'a',
    imageRef: 'registry.example/lab:1',
    cpuMilli: 1_000,
    memoryMiB: 512,
    pidsLimit: 512,
    gpus: 0,
    mounts: [],
    nodePorts: [],
    nodePortAddress: '192.0.2.1',
    files: [],
  };
  const fault = await expectFault(engine.ensure(spec, deadline()), 'rejected');
  expect(fault.message).toContain('does not enforce NetworkPolicies');
  const other = userId('55555555-5555-4555-8555-555555555555');
  const context = { cluster, installation, settings: unenforced, egress: { policies: known }, ...alone };
  await ensureAccountNetwork(context, other, deadline());
  await engine.stop();
});
