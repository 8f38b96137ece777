/** A database of the first version, with rows in every state that it knew. */
import { sql } from 'kysely';
import type { Region } from '../../../src/domain/catalog.ts';
import { regionId } from '../../../src/domain/ids.ts';
import type { Operation, StageName } from '../../../src/domain/operation.ts';
import type { InstanceObservation, Step } from '../../../src/domain/plan.ts';
import { saveSetting } from '../../../src/store/tables/catalog.ts';
import type { Migration } from '../../../src/store/db/migrate.ts';
import { first } from '../../../src/store/migrations/0001-first.ts';
import { migrations } from '../../../src/store/migrations/all.ts';
import { openPostgres } from '../../../src/store/db/postgres.ts';
import { openSqlite } from '../../../src/store/db/sqlite.ts';
import type { Db, Store } from '../../../src/store/store.ts';
import { quietLog, type Open, type Place } from '../../fixtures/store.ts';

export const CREATED_MS = 1_700_000_000_000;
export const WISHED_MS = CREATED_MS + 3_600_000;
export const NOW_MS = WISHED_MS + 60_000;
export const MESSAGE = 'no such image: "x", said\nthe registry';

export const region: Region = {
  id: regionId('here'),
  name: 'default',
  value: 'default',
  location: 'here',
  domain: 'gateway.test',
  sshAddress: '192.0.2.1',
  engine: 'simulated',
};

/** An instance as the first version kept it. */
export interface Old {
  status: string;
  desired: 'running' | 'stopped' | 'released';
  phase: string;
  generation: number;
  diagnosis?: string;
  /** What a pass that looks at it after the upgrade sees. */
  seen: InstanceObservation;
  /** What is to come of it. */
  operation: { kind: Operation['kind']; state: Operation['state']; stage?: StageName };
  actions: string[];
  step: Step['do'];
}

const runs: InstanceObservation = {
  kind: 'present',
  running: true,
  exitCode: null,
  outOfMemory: false,
  startedAtMs: WISHED_MS,
  answers: true,
};
const stands: InstanceObservation = { ...runs, running: false, exitCode: 0 };
const absent: InstanceObservation = { kind: 'absent' };

export const olds: Record<string, Old> = {
  launching: {
    status: 'Initializing',
    desired: 'running',
    phase: 'Queued',
    generation: 1,
    seen: absent,
    operation: { kind: 'launch', state: 'Running', stage: 'Placed' },
    actions: ['stop', 'terminate'],
    step: 'ensure',
  },
  pulling: {
    status: 'PullingImage',
    desired: 'running',
    phase: 'DownloadImage',
    generation: 1,
    seen: absent,
    operation: { kind: 'launch', state: 'Running', stage: 'Placed' },
    actions: ['stop', 'terminate'],
    step: 'ensure',
  },
  starting: {
    status: 'Starting',
    desired: 'running',
    phase: 'WaitReady',
    generation: 3,
    seen: runs,
    operation: { kind: 'start', state: 'Running', stage: 'Placed' },
    actions: ['stop', 'terminate'],
    step: 'checkReady',
  },
  restarting: {
    status: 'Restarting',
    desired: 'running',
    phase: 'Stopping',
    generation: 2,
    seen: runs,
    operation: { kind: 'restart', state: 'Running', stage: 'Stop' },
    actions: ['stop', 'terminate'],
    step: 'checkReady',
  },
  running: {
    status: 'Running',
    desired: 'running',
    phase: 'Ready',
    generation: 1,
    seen: runs,
    operation: { kind: 'launch', state: 'Succeeded' },
    actions: ['stop', 'restart', 'archive', 'terminate'],
    step: 'rest',
  },
  runningAgain: {
    status: 'Running',
    desired: 'running',
    phase: 'Ready',
    generation: 3,
    seen: runs,
    operation: { kind: 'start', state: 'Succeeded' },
    actions: ['stop', 'restart', 'archive', 'terminate'],
    step: 'rest',
  },
  stopping: {
    status: 'Running',
    desired: 'stopped',
    phase: 'Stopping',
    generation: 2,
    seen: runs,
    operation: { kind: 'stop', state: 'Running', stage: 'Stop' },
    actions: ['archive', 'terminate'],
    step: 'halt',
  },
  calledOff: {
    status: 'PullingImage',
    desired: 'stopped',
    phase: 'Stopping',
    generation: 2,
    seen: absent,
    operation: { kind: 'stop', state: 'Running', stage: 'Stop' },
    actions: ['terminate'],
    step: 'settle',
  },
  stopped: {
    status: 'Stopped',
    desired: 'stopped',
    phase: 'Stopped',
    generation: 2,
    seen: stands,
    operation: { kind: 'stop', state: 'Succeeded' },
    actions: ['start', 'archive', 'terminate'],
    step: 'rest',
  },
  failed: {
    status: 'InitializationFailed',
    desired: 'stopped',
    phase: 'Failed',
    generation: 1,
    diagnosis: 'EngineRejected',
    seen: absent,
    operation: { kind: 'launch', state: 'Failed' },
    actions: ['start', 'terminate'],
    step: 'rest',
  },
  failedLater: {
    status: 'StartingFailed',
    desired: 'stopped',
    phase: 'Failed',
    generation: 3,
    diagnosis: 'ImageFailed',
    seen: stands,
    operation: { kind: 'start', state: 'Failed' },
    actions: ['start', 'archive', 'terminate'],
    step: 'rest',
  },
  cleaning: {
    status: 'Released',
    desired: 'released',
    phase: 'Cleaning',
    generation: 2,
    seen: runs,
    operation: { kind: 'terminate', state: 'Running', stage: 'Clean' },
    actions: [],
    step: 'destroy',
  },
  cleaned: {
    status: 'Released',
    desired: 'released',
    phase: 'Cleaned',
    generation: 2,
    seen: absent,
    operation: { kind: 'terminate', state: 'Succeeded' },
    actions: [],
    step: 'rest',
  },
};

/** The text that the first version wrote. */
export const oldText = (id: string, { status, phase, diagnosis = '' }: Old): string =>
  JSON.stringify({
    instanceMetadata: { instanceAuth: { ownerUserName: 'ann' }, instanceId: id, instanceUsername: 'root' },
    instanceSpecInfo: {
      name: 'é "quoted"',
      instanceBillingInfo: { chargeMode: 'perHour', duration: 1, price: 0.02, unit: '$', type: 'On-Demand' },
      imageInfo: { architecture: 'amd64', isPublic: 'true', name: 'JupyterLab', tags: null, type: 'notebook' },
      instanceConfiguration: {
        enableCommonData: false,
        enableDocker: false,
        InstanceDiskAmountRequest: { rootDiskAmountGiReq: 20, dataDiskAmountGiReq: 20 },
        dockerStorageSize: 0,
      },
      instanceTypeInfo: {
        instanceId: 'type',
        instanceTypeName: 'cpu.1',
        cpu: { amount: 1, type: 'amd64', unit: 'core' },
        memory: { amount: 2, type: 'RAM', unit: 'GB' },
        gpu: { amount: 0, type: '', unit: 'card' },
        disk: { amount: 20, type: 'root', unit: 'GB' },
      },
      regionInfo: {
        domain: region.domain,
        location: region.location,
        name: region.name,
        sshAddress: region.sshAddress,
        value: region.value,
        regionId: region.id,
      },
      remoteStorages: [],
      nodePorts: [
        {
          port: 22,
          address: status === 'Running' ? region.sshAddress : '',
          nodePort: status === 'Running' ? 30_000 : 0,
        },
      ],
      isSpotInstance: false,
    },
    instanceRuntimeInfo: {
      createAtUnixMs: CREATED_MS,
      status,
      phase,
      message: '',
      diagnosisReason: diagnosis,
      diagnosisMessage: diagnosis === '' ? '' : MESSAGE,
      healthy: status === 'Running',
      subUrl: `/notebook/${id}/`,
      instanceDiskUsageInfo: { rootDiskUsedGi: 0, dataDiskUsedGi: 0 },
      instanceDiskAmountInfo: { rootDiskAmountGi: 20, dataDiskAmountGi: 20 },
      stopTimestamp: 0,
      scheduledStopTimestamp: 0,
    },
  });

const idle = { leaseOwner: null, leaseToken: null, leaseUntilMs: null, dueAtMs: null, listed: 1 } as const;

export const spec = {
  name: 'é "quoted"',
  regionId: region.id,
  image: {
    id: 'image',
    name: 'JupyterLab',
    ref: 'r:1',
    architecture: 'amd64',
    isPublic: true,
    tags: [],
    type: 'notebook',
  },
  type: {
    id: 'type',
    name: 'cpu.1',
    isSpot: false,
    cpuCores: 1,
    cpuType: 'amd64',
    memoryGB: 2,
    gpuCount: 0,
    gpuName: '',
    rootDiskGB: 20,
    dataDiskGB: 20,
  },
  chargeMode: 'perHour',
  duration: 1,
  isSpot: false,
  mounts: [],
  extraDataDiskGB: 0,
  enableCommonData: false,
  enableDocker: false,
  dockerStorageGB: 0,
  initScript: '',
};

async function insertOld(tx: Db, id: string, old: Old): Promise<void> {
  const { status, phase, diagnosis = '' } = old;
  const diagnosisMessage = diagnosis === '' ? '' : MESSAGE;
  // A message may say what only a member means.
  const message = status === 'Released' ? '"phase":"Cleaned"' : '';
  const observed = {
    status,
    phase,
    diagnosis,
    diagnosisMessage,
    message,
    healthy: status === 'Running',
    stoppedAtMs: 0,
  };
  await tx
    .insertInto('instance')
    .values({
      ...idle,
      id,
      ownerId: 'ann',
      ownerName: 'ann',
      regionId: region.id,
      createdAtMs: CREATED_MS,
      spec: JSON.stringify(spec),
      priceMicros: 20_000,
      nodePorts: JSON.stringify([{ port: 22, nodePort: 30_000 }]),
      desired: old.desired,
      generation: old.generation,
      mustHalt: 0,
      everEnsured: 1,
      filesStale: 0,
      attempts: 0,
      requestedAtMs: WISHED_MS,
      initExit: null,
      observed: JSON.stringify(observed),
      status,
      holdsCapacity: 0,
      notebookToken: 't',
      publicText: oldText(id, old),
      releasedAtMs: old.desired === 'released' ? WISHED_MS : null,
    })
    .execute();
}

export const volumeOperations: Record<
  string,
  { kind: Operation['kind']; state: Operation['state']; stage?: StageName }
> = {
  Pending: { kind: 'createVolume', state: 'Running', stage: 'Disks' },
  Bound: { kind: 'createVolume', state: 'Succeeded' },
  Lost: { kind: 'createVolume', state: 'Succeeded' },
  Terminating: { kind: 'deleteVolume', state: 'Running', stage: 'Clean' },
};

const insertOldVolume = (tx: Db, status: string) =>
  tx
    .insertInto('volume')
    .values({
      ...idle,
      id: `volume-${status}`,
      ownerId: 'ann',
      ownerName: 'ann',
      createdAtMs: CREATED_MS,
      name: status,
      liveName: status === 'Terminating' ? null : `ann/${status}`,
      regionId: region.id,
      type: 'filesystem',
      sizeGB: 1,
      usageBytes: 0,
      status,
      generation: 1,
      publicText: '{}',
    })
    .execute();

const openWith = (place: Place, known: readonly Migration[]): Promise<Store> =>
  'file' in place
    ? openSqlite({ ...place, migrations: known, log: quietLog })
    : openPostgres({ ...place, migrations: known, log: quietLog });

/** Hashes of sessions of the gateway that were in use then. */
export const oldSessions = ['a'.repeat(64), 'b'.repeat(64)];

/** A database of the first version with all of them, as this version opens it. */
export async function upgraded(open: Open): Promise<Store> {
  const place = await open.empty();
  const before = await openWith(place, [first]);
  await before.write(async (tx) => {
    await tx
      .insertInto('account')
      .values({ id: 'ann', username: 'ann', email: '', passwordHash: '', roles: '[]', createdAtMs: 1, disabled: 0 })
      .execute();
    const { engine, id, name, value, location, domain, sshAddress } = region;
    const totals = { cpuMilliTotal: 1, memoryMiBTotal: 1, gpusTotal: 0, nodePortsTotal: 1 };
    await tx
      .insertInto('region')
      .values({ id, name, value, location, domain, sshAddress, engine, ...totals })
      .execute();
    for (const [id, old] of Object.entries(olds)) await insertOld(tx, id, old);
    for (const status of Object.keys(volumeOperations)) await insertOldVolume(tx, status);
    for (const hash of oldSessions)
      await sql`insert into "gatewayGrant" (hash, kind, "accountId", "instanceId", "expiresAtMs")
        values (${hash}, 'session', 'ann', 'notebook-x', ${WISHED_MS})`.execute(tx);
    // As the first version left it once all texts were written.
    await saveSetting(tx, `texts.${region.id}`, JSON.stringify(region));
  });
  await before.stop();
  return openWith(place, migrations);
}
