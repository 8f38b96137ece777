/** Downloads of images, against a stand-in for the API server. */
import { expect, test } from 'vitest';
import type { KubernetesEngineSettings } from '../../../src/domain/regions/kubernetes-settings.ts';
import type { RegistryCredentials } from '../../../src/engines/contract.ts';
import { makeEnsureImage } from '../../../src/engines/kubernetes/cluster-images.ts';
import type { PullerContext } from '../../../src/engines/kubernetes/puller-runs.ts';
import type { Pod } from '../../../src/kubernetes/api-objects.ts';
import { deadline } from '../../conformance/subject.ts';
import { startApiServer, type Call } from '../../fixtures/api-server.ts';

const ref = 'registry.example/lab:1';
const settings: KubernetesEngineSettings = {
  login: 'inCluster',
  namespace: 'berth',
  reach: 'podAddress',
  networkPolicies: true,
  userNamespaces: false,
};
const podWith = (state: object): Pod => ({ status: { containerStatuses: [{ ...containerStatus, state }] } });
const containerStatus = { name: 'pull', image: ref, imageID: '', ready: false, restartCount: 0 };
const runs = podWith({ running: {} });

const unplaced: Pod = {
  status: { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/0 nodes' }] },
};

async function makeScene({
  pod = runs,
  autoscaling,
}: Pick<KubernetesEngineSettings, 'autoscaling'> & { pod?: Pod } = {}) {
  const { cluster, calls } = await startApiServer({ answer: ({ body }) => ({ body: body ?? {} }) });
  const context: PullerContext = {
    cluster,
    installation: 'i-1',
    settings: { ...settings, autoscaling },
    log: { debug: () => {} },
    stopping: new AbortController().signal,
    pods: {
      async until(_name, pick) {
        const outcome = pick(pod, null);
        if (outcome === undefined) throw new Error('the download goes on');
        return outcome;
      },
    },
  };
  const ensureImage = makeEnsureImage(context, { hasImage: async () => false });
  const ask = (credentials?: RegistryCredentials, askRegistry = true): Promise<void> =>
    ensureImage(ref, () => {}, deadline(), credentials, { askRegistry });
  return { calls, ask };
}

const shown = ({ method, path }: Call): string => `${method} ${path.split('/').at(method === 'POST' ? -1 : -2)}`;

test('the network of a download is closed before its Pod runs, and nothing of it stays', async () => {
  const { ask, calls } = await makeScene();
  await ask({ username: 'ann', secret: 'secret' });
  expect(calls.slice(0, 2).map(shown).toSorted()).toEqual(['POST networkpolicies', 'POST secrets']);
  expect(calls.slice(2).map(shown)).toEqual(['POST pods', 'DELETE pods', 'DELETE networkpolicies', 'DELETE secrets']);
  const bodyOf = (what: string) => calls.find((call) => shown(call) === `POST ${what}`)?.body;
  const { metadata } = bodyOf('pods') as Pod;
  expect(bodyOf('networkpolicies')).toMatchObject({
    spec: { podSelector: { matchLabels: metadata?.labels }, policyTypes: ['Ingress', 'Egress'] },
  });
  expect(bodyOf('networkpolicies')).not.toHaveProperty('spec.egress');
});

test('without a node to download, leaves that to the node that an autoscaler adds for the instance', async () => {
  const autoscaling = { nodePools: [{ cpuCores: 4, memoryGB: 16, maxNodes: 3 }] };
  const { ask, calls } = await makeScene({ pod: unplaced, autoscaling });
  await ask(undefined, false);
  const { length } = calls;
  await ask(undefined, false);
  expect(calls, 'one download for all that wait').toHaveLength(length);
  await expect(ask(), 'a registry must be asked').rejects.toThrow('a call of the cluster failed');
  const { ask: askWithout } = await makeScene({ pod: unplaced });
  await expect(askWithout(undefined, false)).rejects.toMatchObject({ kind: 'no_capacity', reason: 'clusterFull' });
});
