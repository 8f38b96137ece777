/** Manifests of instances, compared with committed ones: a change of behavior is a visible diff. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { instanceIdOf, userId } from '../../../src/domain/kernel/ids.ts';
import type { KubernetesEngineSettings } from '../../../src/domain/regions/kubernetes-settings.ts';
import type { EgressPolicy } from '../../../src/domain/regions/egress.ts';
import { gpuRequestOf } from '../../../src/engines/kubernetes/gpu-resources.ts';
import { claimTemplate } from '../../../src/engines/kubernetes/manifests/device-claim.ts';
import { controlSecret, filesDigest } from '../../../src/engines/kubernetes/manifests/control-secret.ts';
import { headlessService, portsService } from '../../../src/engines/kubernetes/manifests/instance-services.ts';
import { instanceSet, type SetOptions } from '../../../src/engines/kubernetes/manifests/instance-set.ts';
import { accountPolicy, closedRangesOf, portsPolicy } from '../../../src/engines/kubernetes/manifests/network-rules.ts';
import { disruptionBudget } from '../../../src/engines/kubernetes/manifests/node-protection.ts';
import { networkContainer } from '../../../src/engines/kubernetes/manifests/network-container.ts';
import { labelsFor } from '../../../src/engines/kubernetes/manifests/object-names.ts';
import { pullerPod, pullerPolicy } from '../../../src/engines/kubernetes/manifests/puller-pod.ts';
import { dockerConfig, pullSecret } from '../../../src/engines/kubernetes/manifests/pull-secret.ts';

const FOLDER = path.join(import.meta.dirname, '../../expected/kubernetes');

/** Writes the file instead, if the environment says so. */
function expectManifests(name: string, ...manifests: object[]): void {
  const file = path.join(FOLDER, `${name}.json`);
  const text = `${JSON.stringify(manifests, null, 2)}\n`;
  if (process.env['BERTH_WRITE_EXPECTED'] === '1') writeFileSync(file, text);
  expect(JSON.parse(text)).toEqual(JSON.parse(readFileSync(file, 'utf8')));
}

const installation = '11111111-1111-4111-8111-111111111111';
const uid = '22222222-2222-4222-8222-222222222222';
const ownerId = userId('33333333-3333-4333-8333-333333333333');
const owner = { installation, uid };

const settings: KubernetesEngineSettings = {
  login: 'inCluster',
  namespace: 'berth',
  reach: 'podAddress',
  networkPolicies: true,
  userNamespaces: false,
};

const spec: EngineSpec = {
  id: instanceIdOf('44444444-4444-4444-8444-444444444444'),
  ownerId,
  generation: 3,
  hostname: 'notebook-44444444-4444-4444-8444-444444444444-0',
  imageRef: 'registry.example/lab:1',
  cpuMilli: 1_500,
  memoryMiB: 2_048,
  pidsLimit: 512,
  gpus: 0,
  rootDiskGB: 20,
  mounts: [
    { source: 'data-4444', target: '/root/dataDisk', readOnly: false },
    { source: 'common', target: '/root/commonData', readOnly: true },
    { source: 'common', target: '/root/again', readOnly: true },
  ],
  nodePorts: [
    { port: 22, nodePort: 30_022 },
    { port: 8888, nodePort: 30_088 },
  ],
  nodePortAddress: '192.0.2.1',
  files: [
    { name: 'start', content: '#!/bin/sh\n', mode: 0o555 },
    { name: 'notebook-token', content: 'token\n', mode: 0o600 },
    { name: 'name', content: 'lab\n', mode: 0o644 },
  ],
};

const setOf = (
  change: Partial<EngineSpec> = {},
  more: Partial<KubernetesEngineSettings> = {},
  options: Partial<SetOptions> = {},
) =>
  instanceSet(
    { ...spec, ...change },
    {
      installation,
      settings: { ...settings, ...more },
      replicas: 1,
      hasPullSecret: false,
      can: { restartPolicies: true, storageLimits: true },
      ...options,
    },
  );

describe('an instance', () => {
  test('is a StatefulSet of one with a Secret, Services and the policy of its node ports', () => {
    expectManifests(
      'instance',
      setOf(),
      controlSecret(spec, owner),
      headlessService(spec, owner),
      portsService(spec, owner),
      portsPolicy(spec, { ...owner, podRanges: ['10.98.0.0/16', 'fd00::/64'] }),
    );
  });

  test('is protected from an autoscaler of the cluster, unless it is spot', () => {
    const autoscaling = { nodePools: [{ cpuCores: 4, memoryGB: 16, maxNodes: 3 }] };
    const annotationsOf = (...change: Parameters<typeof setOf>) =>
      setOf(...change).spec?.template.metadata?.annotations ?? {};
    expect(annotationsOf({}, { autoscaling })).toMatchObject({
      'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false',
      'karpenter.sh/do-not-disrupt': 'true',
    });
    const spot = annotationsOf({ spot: true }, { autoscaling });
    expect(spot).toMatchObject({ 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' });
    expect(spot).not.toHaveProperty('karpenter.sh/do-not-disrupt');
    expect(Object.keys(annotationsOf())).toEqual(['berth.files', 'berth.template']);
    const { template } = setOf({}, { autoscaling }).spec ?? {};
    expect(template?.metadata?.annotations?.['berth.template'], 'a Pod that starts is not made again').toBe(
      annotationsOf()['berth.template'],
    );
    const budget = disruptionBudget(spec, owner);
    expect(budget.spec).toEqual({ maxUnavailable: 0, selector: setOf().spec?.selector });
    expect(budget.metadata?.ownerReferences, 'ends with the instance').toMatchObject([{ uid }]);
  });

  test('never restarts, and has a container that only waits, within the size of its type', () => {
    const { containers, resources } = setOf().spec?.template.spec ?? {};
    const [main, keeper] = containers ?? [];
    expect(main?.restartPolicy).toBe('Never');
    const size = { cpu: '1500m', memory: '2048Mi' };
    expect(resources).toEqual({ limits: size, requests: size });
    expect(main?.resources?.requests).toMatchObject({ ...size, 'ephemeral-storage': '20Gi' });
    expect(keeper).toMatchObject({ image: main?.image, resources: { requests: { cpu: '0', memory: '0' } } });
    expect([keeper?.volumeMounts, keeper?.resources?.claims, keeper?.restartPolicy]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    const older = setOf({}, {}, { can: { restartPolicies: false, storageLimits: false } }).spec?.template.spec;
    const { 'ephemeral-storage': disk, ...limits } = main?.resources?.limits ?? {};
    expect(disk).toBe('20Gi');
    expect(older?.containers).toMatchObject([{ resources: { limits } }]);
    expect(older?.containers[0]).not.toHaveProperty('restartPolicy');
    expect(older?.containers[0]?.resources?.limits).not.toHaveProperty('ephemeral-storage');
    expect(older?.resources).toBeUndefined();
  });

  test('with GPUs asks for the extended resource on nodes of the kind', () => {
    const gpus = { resource: 'nvidia.com/gpu', nameLabel: 'nvidia.com/gpu.product' };
    expectManifests(
      'gpu-instance',
      setOf({ gpus: 2, gpuName: 'NVIDIA-L4' }, { gpus, nodeSelector: { pool: 'berth' } }),
    );
  });

  test('with GPUs by claims asks for devices of the model, on nodes that the claim may use', () => {
    const deviceClaims: KubernetesEngineSettings['deviceClaims'] = [
      {
        deviceClass: 'gpu.nvidia.com',
        modelAttribute: 'gpu.nvidia.com/productName',
        tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }],
        nodeAffinity: [{ key: 'pool', operator: 'In', values: ['h200', 'h100'] }],
      },
      {
        deviceClass: 'mig.nvidia.com',
        selector: 'device.attributes["gpu.nvidia.com"].profile == "1g.18gb"',
        modelAttribute: 'gpu.nvidia.com/productName',
        part: { name: 'MIG 1g.18gb', kind: 'mig' },
      },
    ];
    const more = { ...settings, deviceClaims, nodeSelector: { zone: 'a' }, tolerations: [{ key: 'notebooks' }] };
    const whole = { gpus: 2, gpuName: 'NVIDIA H200' };
    const part = { gpus: 1, gpuName: 'NVIDIA H200 MIG 1g.18gb' };
    const templateOf = (gpus: typeof whole) => {
      const claimed = gpuRequestOf(gpus, more);
      if (claimed?.kind !== 'claim') throw new Error(`nothing claims ${gpus.gpuName}`);
      return claimTemplate({ ...spec, ...gpus }, claimed, owner);
    };
    expectManifests('claim-instance', setOf(whole, more), templateOf(whole), templateOf(part));
    const { resourceClaims, affinity, tolerations } = setOf({}, more).spec?.template.spec ?? {};
    expect([resourceClaims, affinity, tolerations], 'without GPUs').toEqual([undefined, undefined, more.tolerations]);
    const nameOf = (gpus: typeof whole) => templateOf(gpus).metadata?.name;
    expect(nameOf({ ...whole, gpus: 1 }), 'another request has another template').not.toBe(nameOf(whole));
  });

  test('has the priority of a spot type, and the time of the notice', () => {
    const more = { priorityClass: 'berth', spotPriorityClass: 'berth-spot', preemptionGraceSeconds: 120 };
    expectManifests('spot-instance', setOf({ spot: true }, more));
    expect(setOf({}, more).spec?.template.spec).toMatchObject({
      priorityClassName: 'berth',
      terminationGracePeriodSeconds: 30,
    });
    expect(JSON.stringify(setOf({}, more)), 'others start again at once').not.toMatch(/schedulingGates|preStop/);
  });

  test('with user namespaces has no ids of the node', () => {
    expectManifests(
      'user-namespace-instance',
      setOf({ runtime: 'gvisor', dns: ['192.0.2.53'] }, { userNamespaces: true }),
    );
  });

  test('with Docker has a privileged sidecar where the region allows it, and none elsewhere', () => {
    const docker = { storage: 'docker-4444', environment: { HTTP_PROXY: 'http://proxy:3128' } };
    expectManifests(
      'docker-instance',
      setOf({ docker }, { privilegedDocker: { image: 'registry.example/docker-inside:1' } }),
    );
    expect(setOf({ docker }).spec?.template.spec?.initContainers).toBeUndefined();
  });

  test('opens port 22 to the network container where the region has one', () => {
    const networkImage = 'registry.example/berth:1';
    const { securityContext } = setOf({}, { networkImage }).spec?.template.spec ?? {};
    expectManifests('network-container', { securityContext }, networkContainer('berth-network-1', networkImage));
    expect(setOf().spec?.template.spec).not.toHaveProperty('securityContext');
    expect(networkContainer('berth-network-1', 'berth.local/network:1').imagePullPolicy).toBe('Never');
  });

  test('has the login of its own registry alone', () => {
    const credentials = { username: 'berth', secret: 'harbor' };
    expectManifests('pull-secret', pullSecret(spec, credentials, owner));
    const { auths } = JSON.parse(dockerConfig('library/debian:12', credentials)) as { auths: object };
    expect(Object.keys(auths)).toEqual(['https://index.docker.io/v1/']);
    const withLogin = setOf({}, {}, { replicas: 0, hasPullSecret: true, uid });
    expect(withLogin).toMatchObject({
      metadata: { uid },
      spec: { replicas: 0, template: { spec: { imagePullSecrets: [{ name: `${spec.id}-pull` }] } } },
    });
  });

  test('asks no registry for an image of Berth', () => {
    const [container] = setOf({ imageRef: 'berth.local/notebook:1' }).spec?.template.spec?.containers ?? [];
    expect(container?.imagePullPolicy).toBe('Never');
  });

  test('has another digest of files for another name, text or mode, in any order', () => {
    const { files } = spec;
    const digests = [
      files,
      files.map((file) => ({ ...file, mode: 0o644 })),
      files.map((file) => ({ ...file, content: `${file.content} ` })),
      files.map((file) => ({ ...file, name: `${file.name}-2` })),
    ].map(filesDigest);
    expect(new Set(digests).size).toBe(4);
    expect(filesDigest(files.toReversed())).toBe(digests[0]);
  });

  test('has no file of a name that a path could be', () => {
    const files = [{ name: '../token', content: '', mode: 0o644 }];
    expect(() => controlSecret({ ...spec, files }, owner)).toThrow('"../token"');
  });
});

describe('an account', () => {
  const policyOf = (egress: EgressPolicy, more: Partial<KubernetesEngineSettings> = {}) =>
    accountPolicy({
      installation,
      ownerId,
      egress,
      nameServers: ['192.0.2.53'],
      closed: closedRangesOf({ ...settings, ...more }, ['10.0.0.7', '203.0.113.9', '203.0.113.8']),
      gatewayPorts: [8081],
      settings: { ...settings, ...more },
    });

  test('reaches its own instances, and is reached by the peers of the region', () => {
    expectManifests(
      'account-open',
      policyOf({ mode: 'open' }, { peers: [{ cidr: '192.0.2.0/24' }, { namespace: 'berth-system' }] }),
    );
  });

  test('without egress reaches only itself', () => {
    expectManifests('account-none', policyOf({ mode: 'none' }));
  });

  test('with a list reaches its ranges and the name servers', () => {
    const allow = [
      { cidr: '203.0.113.0/24' },
      { cidr: '198.51.100.7', ports: ['443', '8000-8100'], protocol: 'tcp' as const },
      { cidr: '198.51.100.8', protocol: 'udp' as const },
    ];
    expectManifests('account-list', policyOf({ mode: 'list', allow }));
  });

  test('has another digest for other rules', () => {
    const rulesOf = (egress: EgressPolicy) => policyOf(egress).metadata?.annotations?.['berth.rules'];
    expect(rulesOf({ mode: 'none' })).not.toBe(rulesOf({ mode: 'open' }));
    expect(rulesOf({ mode: 'none' })).toBe(rulesOf({ mode: 'none' }));
  });
});

test('a download is a Pod without rights and network, which ends by itself', () => {
  const more = { nodeSelector: { pool: 'berth' }, tolerations: [{ key: 'berth', operator: 'Exists' as const }] };
  const puller = {
    name: 'berth-pull-1',
    installation,
    settings: { ...settings, ...more },
    ref: spec.imageRef,
    hasSecret: true,
    askRegistry: true,
  };
  expectManifests('download', pullerPod(puller), pullerPolicy(puller));
});

test('labels fit Kubernetes', () => {
  const identity = { installation, kind: 'instance' as const, id: spec.id, ownerId };
  for (const [name, value] of Object.entries(labelsFor(identity))) {
    expect(name).toMatch(/^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/);
    expect(value).toMatch(/^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/);
  }
  // The controller adds a hash of up to 11 characters to the name.
  expect(spec.id.length).toBeLessThanOrEqual(52);
});
