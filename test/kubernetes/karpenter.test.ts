/** A region in a cluster that grows: Karpenter adds nodes for instances, and takes them away. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { instanceIdOf, userId } from '../../src/domain/kernel/ids.ts';
import { EngineFault } from '../../src/domain/regions/engine-fault.ts';
import type { KubernetesEngineSettings } from '../../src/domain/regions/kubernetes-settings.ts';
import type { Engine, EngineSpec, Observation } from '../../src/engines/contract.ts';
import { makeKubernetesEngine } from '../../src/engines/kubernetes/kubernetes.ts';
import { openCluster } from '../../src/kubernetes/cluster.ts';
import { deadline } from '../conformance/subject.ts';
import { eventually, hasStatus, IMAGE_REF } from '../fixtures/control.ts';
import type { Cluster } from './cluster/cluster.ts';
import { makeFaultWorld, NAMESPACE, podField, podOf, startFaultCluster } from './faults/fault-world.ts';
import { GPU, karpenter, POOL, startKarpenter, type Karpenter } from './cluster/karpenter.ts';

/** Twice what Karpenter takes to replace a node by a cheaper one. */
const CONSOLIDATION_MS = 60_000;

const autoscaling = {
  nodePools: [
    { cpuCores: 3.9, memoryGB: 7, maxNodes: 4 },
    // No instance type of Karpenter has that much.
    { cpuCores: 16, memoryGB: 64, gpuNum: 2, gpuName: GPU.model, maxNodes: 2 },
  ],
};
const growing = {
  nodeSelector: POOL,
  gpus: { resource: GPU.resource, nameLabel: GPU.nameLabel },
  autoscaling,
};

let cluster: Cluster;
let scaler: Karpenter;

beforeAll(async () => {
  cluster = await startFaultCluster();
  scaler = await startKarpenter(cluster);
});
afterAll(async () => {
  await scaler?.stop();
  await cluster?.stop();
});

const uidOf = (id: string): Promise<string> => podField(cluster, podOf(id), '{.metadata.uid}');
const nodeOf = (id: string): Promise<string> => podField(cluster, podOf(id), '{.spec.nodeName}');

// skipped where Karpenter can't be built, for want of Go or its module proxy
describe.skipIf('why' in karpenter)('a region with a pool at zero nodes', () => {
  test('takes a launch, says that a node is being added, and runs the instance on it, which is then there', async () => {
    const scene = await makeFaultWorld(cluster, growing);
    const { control } = scene.world.running;
    const presentCores = async (): Promise<number | undefined> => {
      const regions = await control.fleet.read();
      return regions.find(({ region }) => region.id === scene.regionId)?.present?.cpuMilli;
    };
    expect(await presentCores()).toBe(0);
    expect(await scaler.nodes()).toEqual([]);
    const id = await scene.launch();
    await scene.world.until(id, ({ instanceRuntimeInfo: now }) =>
      now.diagnosisMessage.startsWith(
        'a node is being added to the cluster (Nominated: Pod should schedule on: nodeclaim/',
      ),
    );
    await scene.world.until(id, ({ instanceRuntimeInfo: now }) => now.phase === 'WaitReady');
    expect(await scaler.nodes()).toEqual([`node/${await nodeOf(id)}`]);
    await scene.end(id);
  });

  test('keeps the Pod that waits across a restart of Berth, and takes it back after the patience', async () => {
    const scene = await makeFaultWorld(cluster, growing);
    const id = await scene.launch({ cpuCores: 12 });
    const words =
      /^the instance waits up to 10 minutes for a node: FailedScheduling: .*no instance type has enough resources/;
    await scene.world.until(id, ({ instanceRuntimeInfo: now }) => words.test(now.diagnosisMessage));
    const uid = await uidOf(id);
    expect(uid).not.toBe('');
    await scene.world.running.stop();
    await scene.world.again();
    await scene.world.until(id, ({ instanceRuntimeInfo: now }) => words.test(now.diagnosisMessage));
    expect(await uidOf(id)).toBe(uid);
    expect(await scene.charged(id)).toEqual([]);

    const long = String(Date.now() - 10 * 60_000);
    await cluster.kubectl([
      'annotate',
      'pod',
      podOf(id),
      '-n',
      NAMESPACE,
      '--overwrite',
      `berth.pending-since=${long}`,
    ]);
    await scene.world.until(id, ({ instanceRuntimeInfo: now }) =>
      /no node came within 10 minutes \(FailedScheduling: .*; Berth retries$/.test(now.diagnosisMessage),
    );
    await eventually(async () => ![uid, ''].includes(await uidOf(id)));
    expect(await scene.charged(id)).toEqual([]);
    await scene.end(id);
  });

  test('removes a Pod that waits for a node when its instance is stopped', async () => {
    const scene = await makeFaultWorld(cluster, growing);
    const id = await scene.launch({ cpuCores: 12 });
    await scene.untilReason(id, 'NoCapacity');
    await eventually(async () => (await uidOf(id)) !== '');
    await scene.world.running.control.instances.stop(scene.world.caller, { instanceId: id }, null);
    await scene.world.until(id, hasStatus('Stopped'));
    expect(await uidOf(id)).toBe('');
    await scene.end(id);
  });
});

// skipped where Karpenter can't be built, for want of Go or its module proxy
describe.skipIf('why' in karpenter)('an instance on a node that Karpenter added', () => {
  const installation = 'karpenter';
  const ownerId = userId('33333333-3333-4333-8333-333333333333');
  let engine: Engine;
  let made = 0;

  const specOf = (more: Partial<EngineSpec> = {}): EngineSpec => {
    made += 1;
    const id = instanceIdOf(`44444444-4444-4444-8444-${String(made).padStart(12, '0')}`);
    return {
      id,
      ownerId,
      generation: 1,
      hostname: podOf(id),
      imageRef: IMAGE_REF,
      cpuMilli: 1_000,
      memoryMiB: 512,
      pidsLimit: 100,
      gpus: 0,
      mounts: [],
      nodePorts: [],
      nodePortAddress: cluster.nodeAddress,
      files: [{ name: 'start', content: '#!/bin/sh\n', mode: 0o555 }],
      ...more,
    };
  };

  beforeAll(async () => {
    const token = (await cluster.kubectl(['create', 'token', 'berth', '-n', NAMESPACE])).trim();
    const settings: KubernetesEngineSettings = {
      ...growing,
      autoscaling: { ...autoscaling, idleMinutes: 1 },
      login: 'token',
      namespace: NAMESPACE,
      reach: 'podAddress',
      networkPolicies: false,
      userNamespaces: false,
    };
    const credentials = { kind: 'token' as const, apiUrl: cluster.apiUrl, ca: cluster.ca, token };
    engine = makeKubernetesEngine({
      cluster: await openCluster({ credentials, namespace: NAMESPACE }),
      installation,
      settings,
      log: { debug() {} },
    });
  });
  afterAll(() => engine?.stop());

  /** As control does: again while a node comes. */
  async function start(spec: EngineSpec): Promise<Observation> {
    let last: unknown;
    let seen: Observation | undefined;
    await eventually(
      async () => {
        try {
          seen = await engine.ensure(spec, deadline());
        } catch (error) {
          if (!(error instanceof EngineFault) || error.reason !== 'nodePending') throw error;
          last = error;
        }
        return seen !== undefined;
      },
      () => last,
    );
    return seen as Observation;
  }

  const budgets = async (): Promise<string> =>
    cluster.kubectl(['get', 'pdb', '-n', NAMESPACE, '-l', `berth.installation=${installation}`, '-o', 'name']);

  test('with a GPU gets one of a pool at zero, on a node of its model', async () => {
    const spec = specOf({ gpus: 1, gpuName: GPU.model });
    expect(await start(spec)).toMatchObject({ running: true });
    const label = `jsonpath={.metadata.labels.node\\.kubernetes\\.io/instance-type}`;
    expect(await cluster.kubectl(['get', 'node', await nodeOf(spec.id), '-o', label])).toBe('gpu-4');
    await engine.destroy(spec.id, deadline());
  });

  test('is left alone while it is protected, and moves to a cheaper node once it is idle', async () => {
    await eventually(async () => (await scaler.nodes()).length === 0);
    const [stays, ends] = [specOf(), specOf()];
    // Both at once, so that one node is made for them.
    await Promise.all([start(stays), start(ends)]);
    const node = await nodeOf(stays.id);
    expect(await nodeOf(ends.id)).toBe(node);
    expect((await budgets()).trim().split('\n')).toHaveLength(2);
    await engine.destroy(ends.id, deadline());

    const uid = await uidOf(stays.id);
    await delay(CONSOLIDATION_MS);
    expect(await uidOf(stays.id)).toBe(uid);

    await engine.protection?.set(stays.id, false, deadline());
    expect(await budgets()).toBe('');
    await eventually(async () => ![node, ''].includes(await nodeOf(stays.id)));
    await eventually(async () => !(await scaler.nodes()).includes(`node/${node}`));
    expect(await start(stays)).toMatchObject({ running: true });
    await engine.destroy(stays.id, deadline());
  });
});
