/**
 * The control plane in this process over a region that is a real cluster, with the rights of
 * `deploy/kubernetes/rbac.yaml`. Instances run a script that only waits.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import { defaultLimits, type Limits } from '../../../src/domain/compute/instance-states.ts';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { eventually, hasStatus, IMAGE_REF, makeWorld, type World } from '../../fixtures/control.ts';
import { openTempStore } from '../../fixtures/store.ts';
import { applets } from '../claim-fixture.ts';
import { startCluster, type Cluster } from '../cluster/cluster.ts';
import { storageClass } from '../cluster/config.ts';
import { busyboxArchive } from '../cluster/image-archive.ts';

export const NAMESPACE = 'berth';
const ROLE = path.join(import.meta.dirname, '../../../deploy/kubernetes/rbac.yaml');
const START = `#!/bin/sh
mkdir -p /run/berth && ln -sf /etc/berth/notice.json /run/berth/notice.json
echo 'berth: services none'
echo 'berth: init none'
trap 'exit 0' TERM
while :; do sleep 1 & wait $!; done
`;
const prices = { tidePerHour: 0.05, perHour: 60, perDay: 2, perWeek: 12, perMonth: 40 };
const size = { cpuCores: 1, memoryGB: 1, gpuNum: 0, gpuName: '', rootDiskGB: 1, dataDiskGB: 1, runtime: '' };

/** A cluster with the namespace, role and image of the region. */
export async function startFaultCluster({ nodes = 1 } = {}): Promise<Cluster> {
  const cluster = await startCluster({ nodes, addons: ['storage'] });
  await cluster.kubectl(['create', 'namespace', NAMESPACE]);
  await applyRole(cluster);
  await cluster.importImage(await busyboxArchive(IMAGE_REF, [...applets, 'wait', 'mkdir']));
  await eventually(async () => (await cluster.kubectl(['get', 'nodes', '-o', 'json'])).includes(`"${IMAGE_REF}"`));
  // The admission of Pods needs it.
  const account = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/default`;
  await eventually(async () => (await cluster.request('GET', account)).status === 200);
  return cluster;
}

/** `without` leaves a verb out of the rule with this index. */
export async function applyRole(cluster: Cluster, without?: { rule: number; verb: string }): Promise<void> {
  // Account and instances share a namespace here.
  const rights = (await readFile(ROLE, 'utf8')).replaceAll('namespace: berth-instances', `namespace: ${NAMESPACE}`);
  await cluster.kubectl(['apply', '-f', '-'], rights);
  if (without === undefined) return;
  const { rules } = JSON.parse(await cluster.kubectl(['get', 'role', 'berth', '-n', NAMESPACE, '-o', 'json'])) as {
    rules: { verbs: string[] }[];
  };
  const verbs = rules[without.rule]?.verbs.filter((verb) => verb !== without.verb);
  const patch = [{ op: 'replace', path: `/rules/${without.rule}/verbs`, value: verbs }];
  const role = ['patch', 'role', 'berth', '-n', NAMESPACE, '--type=json'];
  await cluster.kubectl([...role, '-p', JSON.stringify(patch)]);
}

export interface Period {
  state: string;
  openedAtMs: number;
  closedAtMs: number | null;
}

export interface FaultWorld {
  world: World;
  regionId: string;
  /** `cpuCores`: of a type of its own. */
  launch(options?: { type?: 'full' | 'spot'; resume?: boolean; imageId?: string; cpuCores?: number }): Promise<string>;
  /** Launches, and waits until it runs. */
  run(options?: Parameters<FaultWorld['launch']>[0]): Promise<string>;
  untilStatus(id: string, status: string): Promise<PublicInstance>;
  untilReason(id: string, reason: string): Promise<string>;
  /** Steps of the instance that the cluster refused. */
  refusals(id: string): number;
  events(id: string): Promise<{ kind: string; data: Record<string, unknown> }[]>;
  /** Periods of the meter `compute`, oldest first. */
  periods(id: string): Promise<Period[]>;
  /** Those that are charged. */
  charged(id: string): Promise<Period[]>;
  /** Objects of the instance, `KIND/NAME`, each with its uid. */
  objects(id: string): Promise<string[]>;
  /** Takes the instance away, and waits until nothing of it is in the cluster. */
  end(id: string): Promise<void>;
}

export async function makeFaultWorld(
  cluster: Cluster,
  kubernetes: object = {},
  limits: Partial<Limits> = {},
  settings: { sharedFolder?: boolean } = {},
): Promise<FaultWorld> {
  const { store } = await openTempStore();
  const refused: unknown[] = [];
  const world = await makeWorld(store, {
    limits: {
      ...defaultLimits,
      backOffBaseMs: 300,
      backOffMaxMs: 2_000,
      stopGraceMs: 3_000,
      engineRetryMs: 500,
      ...limits,
    },
    log: { warn: ({ id }, text) => void (text === 'a step failed at the engine' && refused.push(id)) },
    mayFail: /did not answer|does not answer|probe|storage|disk|region|list/,
  });
  world.drivers.startScript = START;
  const { control } = world.running;
  const token = (await cluster.kubectl(['create', 'token', 'berth', '-n', NAMESPACE])).trim();
  const claims = {
    storageClass,
    accessMode: 'ReadWriteOnce' as const,
    sizeLimit: 'hard' as const,
    filesImage: IMAGE_REF,
  };
  const { region } = await control.regionAdministration.create(
    world.caller,
    {
      name: 'cluster',
      value: 'cluster',
      location: 'here',
      sshAddress: cluster.nodeAddress,
      credentials: token,
      dryRun: false,
      settings: {
        kubernetes: {
          login: 'token' as const,
          apiUrl: cluster.apiUrl,
          ca: cluster.ca,
          namespace: NAMESPACE,
          reach: 'podAddress' as const,
          networkPolicies: false,
          userNamespaces: false,
          cpuOvercommit: 1,
          ...kubernetes,
        },
        pools: [{ name: 'default' as const, sizeGB: 1_000, claims }],
        nodePorts: { first: 31_000, last: 31_099 },
        ...settings,
      },
    },
    null,
  );
  const { regionId } = region;
  const createType = async (name: string, more: Partial<typeof size> = {}): Promise<string> => {
    const type = { regionId, name, isSpot: name === 'spot', ...size, prices, ...more };
    return (await control.offeredTypes.create(world.caller, type, null)).type.instanceTypeId;
  };
  const types = { full: await createType('full'), spot: await createType('spot') };
  await eventually(async () => (await control.catalog.regions()).every(({ engine: { answers } }) => answers));

  const launch: FaultWorld['launch'] = async ({ type = 'full', resume, imageId = world.imageId, cpuCores } = {}) => {
    const billing = { chargeMode: 'perHour' as const, duration: 1, ...(resume === undefined ? {} : { resume }) };
    const input = world.launchInput({
      imageId,
      region: regionId,
      instanceTypeId: cpuCores === undefined ? types[type] : await createType(`${cpuCores} cores`, { cpuCores }),
      billing,
      isSpotInstance: type === 'spot',
    });
    return (await world.running.control.instances.launch(world.caller, input, null)).instanceId;
  };
  const rowsOf = (id: string) => world.store.read.selectFrom('usagePeriod').selectAll().where('subjectId', '=', id);
  const periods: FaultWorld['periods'] = async (id) =>
    (await rowsOf(id).where('meter', '=', 'compute').orderBy('id').execute()).map(
      ({ state, openedAtMs, closedAtMs }) => ({ state, openedAtMs, closedAtMs }),
    );
  const objects: FaultWorld['objects'] = async (id) => {
    const kinds = 'statefulsets,pods,secrets,services,persistentvolumeclaims';
    const format = 'jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid}{"\\n"}{end}';
    const list = await cluster.kubectl(['get', kinds, '-n', NAMESPACE, '-o', format]);
    return list.split('\n').filter((line) => line.includes(id.replace('notebook-', '')));
  };
  return {
    world,
    regionId,
    launch,
    async run(options) {
      const id = await launch(options);
      await world.until(id, hasStatus('Running'));
      return id;
    },
    untilStatus: (id, status) => world.until(id, hasStatus(status)),
    async untilReason(id, reason) {
      const seen = await world.until(id, ({ instanceRuntimeInfo: now }) => now.diagnosisReason === reason);
      return seen.instanceRuntimeInfo.diagnosisMessage;
    },
    refusals: (id) => refused.filter((one) => one === id).length,
    async events(id) {
      const rows = world.store.read.selectFrom('event').select(['kind', 'data']).where('subjectId', '=', id);
      return (await rows.orderBy('id').execute()).map(({ kind, data }) => ({ kind, data: JSON.parse(data) }));
    },
    periods,
    charged: async (id) => (await periods(id)).filter(({ state }) => state === 'charged'),
    objects,
    async end(instanceId) {
      await world.running.control.instances.terminate(world.caller, { instanceId }, null);
      await eventually(
        async () => (await objects(instanceId)).length === 0,
        () => objects(instanceId),
      );
    },
  };
}

/** One of each kind: nothing was made twice. */
export function expectOneOfEach(objects: readonly string[]): void {
  const kinds = objects.map((line) => line.split('/')[0]);
  expect(kinds.filter((kind) => kind === 'StatefulSet')).toHaveLength(1);
  expect(kinds.filter((kind) => kind === 'Pod')).toHaveLength(1);
  const claims = objects.filter((line) => line.startsWith('PersistentVolumeClaim/'));
  expect(new Set(claims.map((line) => line.split('-')[0])).size).toBe(claims.length === 0 ? 0 : 1);
}

export const podOf = (id: string): string => `${id}-0`;

export const podField = (cluster: Cluster, name: string, jsonpath: string): Promise<string> =>
  cluster.kubectl(['get', 'pod', name, '-n', NAMESPACE, '--ignore-not-found', '-o', `jsonpath=${jsonpath}`]);

/** A Pod that needs `cpuMilli`: by default most of the node's processors. */
export const blocker = (name: string, priorityClassName?: string, node?: string, cpuMilli = 1_500): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: NAMESPACE },
  spec: {
    terminationGracePeriodSeconds: 1,
    ...(priorityClassName === undefined ? {} : { priorityClassName }),
    ...(node === undefined ? {} : { nodeSelector: { 'kubernetes.io/hostname': node } }),
    containers: [
      {
        name: 'main',
        image: IMAGE_REF,
        imagePullPolicy: 'Never',
        command: ['sh', '-c', 'trap exit TERM; sleep 3600 & wait'],
        resources: { requests: { cpu: `${cpuMilli}m` } },
      },
    ],
  },
});

export const removePod = (cluster: Cluster, name: string): Promise<string> =>
  cluster.kubectl(['delete', 'pod', name, '-n', NAMESPACE, '--ignore-not-found', '--grace-period=1']);
