/** Rights that a new region is checked for: those of the role in `deploy/kubernetes`. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { loadAllYaml } from '@kubernetes/client-node';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { KubernetesEngineSettings } from '../../../src/domain/regions/kubernetes-settings.ts';
import {
  checkRegion,
  missingRights,
  neededRights,
  type Right,
} from '../../../src/engines/kubernetes/cluster-rights.ts';
import { withFaults } from '../../../src/engines/kubernetes/cluster-faults.ts';
import { deadline, expectFault } from '../../conformance/subject.ts';
import { refusal, startApiServer, type Reply } from '../../fixtures/api-server.ts';

const settings: KubernetesEngineSettings = {
  login: 'inCluster',
  namespace: 'berth',
  reach: 'portForward',
  networkPolicies: true,
  userNamespaces: false,
  networkImage: 'node:24-slim',
};
const deviceClaims = [{ deviceClass: 'gpu.nvidia.com', modelAttribute: 'gpu.nvidia.com/productName' }];

const role = z.looseObject({
  rules: z.array(
    z.object({ apiGroups: z.array(z.string()), resources: z.array(z.string()), verbs: z.array(z.string()) }),
  ),
});

/** Rules of the role and of the cluster's role. */
async function writtenRules() {
  const file = path.join(import.meta.dirname, '../../../deploy/kubernetes/rbac.yaml');
  return loadAllYaml(await readFile(file, 'utf8')).flatMap((object) => role.safeParse(object).data?.rules ?? []);
}

const textOf = ({ group, resource, verb }: Right): string => `${verb} ${group}/${resource}`;

test('the written role has what a region needs, and more for snapshots and figures alone', async () => {
  const rules = await writtenRules();
  const needed = neededRights({ ...settings, deviceClaims, autoscaling: { nodePools: [] } });
  expect(missingRights(needed, rules)).toEqual([]);
  const written = rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.flatMap((resource) => verbs.map((verb) => ({ group, resource, verb })))),
  );
  const optional = /\/(volumesnapshots|volumesnapshotclasses|namespaces)$|metrics/;
  expect(new Set(needed.map(textOf))).toEqual(new Set(written.map(textOf).filter((text) => !optional.test(text))));
});

test('ports by the address of the Pod need no port-forward, and ssh alone needs the network container', () => {
  const resources = neededRights({ reach: 'podAddress' }).map(({ resource }) => resource);
  expect(resources).not.toContain('pods/portforward');
  expect(resources).not.toContain('pods/ephemeralcontainers');
  expect(resources, 'without claims').not.toContain('resourceslices');
  expect(resources, 'without an autoscaler').not.toContain('poddisruptionbudgets');
});

describe('a right', () => {
  const exec = { group: '', resource: 'pods/exec', verb: 'get' };

  test.for([
    { what: 'any verb', rule: { apiGroups: [''], resources: ['pods/exec'], verbs: ['*'] }, isGranted: true },
    { what: 'any resource', rule: { apiGroups: ['*'], resources: ['*'], verbs: ['get'] }, isGranted: true },
    { what: 'any subresource', rule: { apiGroups: [''], resources: ['*/exec'], verbs: ['get'] }, isGranted: true },
    { what: 'the resource above', rule: { apiGroups: [''], resources: ['pods'], verbs: ['get'] }, isGranted: false },
    {
      what: 'another group',
      rule: { apiGroups: ['apps'], resources: ['pods/exec'], verbs: ['get'] },
      isGranted: false,
    },
    {
      what: 'one object',
      rule: { apiGroups: [''], resources: ['pods/exec'], verbs: ['get'], resourceNames: ['one'] },
      isGranted: false,
    },
  ])('by a rule of $what: $isGranted', ({ rule, isGranted }) => {
    expect(missingRights([exec], [rule])).toEqual(isGranted ? [] : [exec]);
  });
});

describe('a new region', () => {
  /** `review`: answer about the rules; `secret`: answer to a Secret that is only tried. */
  async function check(review: Reply, secret: Reply = { body: {} }): Promise<void> {
    const { cluster, calls } = await startApiServer({
      answer: ({ path }) => (path.endsWith('/selfsubjectrulesreviews') ? review : secret),
    });
    await withFaults(() => checkRegion({ cluster, settings }, deadline()));
    expect(calls.at(-1)?.query.get('dryRun')).toBe('All');
  }
  const rulesAnswer = (resourceRules: object[], incomplete = false): Reply => ({
    body: { status: { resourceRules, nonResourceRules: [], incomplete } },
  });

  test('without some rights is refused with all of them', async () => {
    const rules = (await writtenRules()).map((rule) =>
      rule.resources.includes('secrets') ? { ...rule, verbs: ['delete'] } : rule,
    );
    const fault = await expectFault(check(rulesAnswer(rules)), 'rejected');
    expect(fault.message).toBe(
      'the cluster does not allow Berth to create and patch secrets, create and patch services in namespace berth; apply deploy/kubernetes/rbac.yaml for this namespace',
    );
  });

  test('is not refused for rules that the cluster does not list', async () => {
    await expect(check(rulesAnswer([], true))).resolves.toBeUndefined();
    await check(refusal(403, 'Forbidden', 'selfsubjectrulesreviews is forbidden: User "a" cannot create'));
  });

  test('in a namespace that is not there is refused', async () => {
    const absent = refusal(404, 'NotFound', 'namespaces "berth" not found');
    const fault = await expectFault(check(rulesAnswer(await writtenRules()), absent), 'rejected');
    expect(fault.message).toContain('the cluster has no namespace berth; create it');
  });
});
