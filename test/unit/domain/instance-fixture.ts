/** An instance with every member set, as a base for overrides. */
import { noUsage } from '../../../src/domain/disk.ts';
import { imageId, instanceIdOf, instanceTypeId, regionId, userId } from '../../../src/domain/ids.ts';
import { noStopPolicy } from '../../../src/domain/stop-policy.ts';
import { instanceStatuses } from '../../../src/domain/instance-states.ts';
import type { Instance } from '../../../src/domain/instance.ts';
import { beginOperation } from '../../../src/domain/operation.ts';

export const anInstance = (over: Partial<Instance> = {}): Instance => ({
  id: instanceIdOf('0f8fad5b-d9cb-469f-a165-70867728950e'),
  ownerId: userId('7c9e6679-7425-40de-944b-e07fc1f90ae7'),
  ownerName: 'ada',
  createdAtMs: 1_700_000_000_000,
  spec: {
    name: 'first',
    regionId: regionId('e5f0c1a2-0000-4000-8000-000000000001'),
    image: {
      id: imageId('e5f0c1a2-0000-4000-8000-000000000002'),
      name: 'JupyterLab',
      ref: 'berth.local/notebook:1',
      architecture: 'amd64',
      isPublic: true,
      tags: ['python3'],
      type: 'notebook',
    },
    type: {
      id: instanceTypeId('e5f0c1a2-0000-4000-8000-000000000003'),
      name: 'cpu.1',
      isSpot: false,
      cpuCores: 1,
      cpuType: 'x86',
      memoryGB: 2,
      gpuCount: 0,
      gpuName: '',
      rootDiskGB: 20,
      dataDiskGB: 20,
    },
    chargeMode: 'perHour',
    duration: 1,
    autoRenew: false,
    resume: false,
    isSpot: false,
    mounts: [],
    extraDataDiskGB: 0,
    enableCommonData: false,
    enableDocker: false,
    dockerStorageGB: 0,
    initScript: '',
    cpuOnlyPriceMicros: null,
    startCommand: '',
  },
  priceMicros: 20_000n,
  nodePorts: [{ port: 22, nodePort: 0 }],
  desired: 'running',
  generation: 1,
  mustHalt: false,
  everEnsured: false,
  filesStale: false,
  attempts: 0,
  requestedAtMs: 1_700_000_000_000,
  initExit: null,
  waitsSinceMs: null,
  waitsUntilMs: null,
  notBeforeMs: null,
  windowEndsAtMs: null,
  reclaimAtMs: null,
  stopPolicy: noStopPolicy,
  archive: null,
  revision: 0,
  pending: null,
  oldContainer: null,
  unfinished: [],
  diskUsage: noUsage,
  operation: beginOperation('launch', 'user', 1_700_000_000_000),
  observed: {
    status: 'Initializing',
    phase: 'Queued',
    diagnosis: '',
    diagnosisMessage: '',
    message: '',
    healthy: false,
    stoppedAtMs: 0,
    runningSinceMs: 0,
    runStartedAtMs: 0,
    countedFromMs: 0,
    progress: null,
    answersBy: 'ssh',
    sshFront: false,
    initFailure: '',
    startExit: null,
    startFailure: '',
  },
  ...over,
});

/** Statuses that each desired state can meet. */
export const possibleStates = (
  [
    ['running', ['Initializing', 'PullingImage', 'Starting', 'Restarting', 'Running']],
    ['stopped', instanceStatuses.filter((status) => status !== 'Released' && status !== 'Archived')],
    ['archived', ['Running', 'Stopped', 'StartingFailed', 'Archived']],
    ['released', ['Released']],
  ] as const
).flatMap(([desired, statuses]) => statuses.map((status) => ({ desired, status })));
