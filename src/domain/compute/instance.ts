/**
 * Requested spec (`spec`, unaffected by later catalog changes) and desired state (`desired`,
 * `generation`), written by use cases; observation and operation, also written by reconcilers.
 */
import { MINUTE_MS } from '../kernel/durations.ts';
import type { InstanceId, RegionId, UserId, VolumeId } from '../kernel/ids.ts';
import type { StopPolicy } from './stop-policy.ts';
import type { DesiredState, Diagnosis, InstanceStatus, Phase } from './instance-states.ts';
import type { DiskUsage } from '../storage/disk.ts';
import type { ChargeMode, Image, InstanceType, Micros } from '../regions/catalog.ts';
import type { NotebookServer } from './notebook-state.ts';
import type { Operation, Progress } from './operation.ts';

export interface Mount {
  mountPath: string;
  volumeId: VolumeId;
  volumeName: string;
  volumeType: string;
}

export interface InstanceSpec {
  name: string;
  regionId: RegionId;
  image: Pick<Image, 'id' | 'name' | 'ref' | 'architecture' | 'isPublic' | 'tags' | 'type'>;
  type: Omit<InstanceType, 'pricesMicros' | 'regionId'> & {
    /** Part of a card that each GPU is; absent: all. */
    gpuShare?: number;
  };
  chargeMode: ChargeMode;
  /** Subscription periods; 1 for `perHour` and `tidePerHour`. */
  duration: number;
  /** Buys the paid time of `perDay`, `perWeek` and `perMonth` again at its end. */
  autoRenew: boolean;
  /** Starts again in the next off-peak window, or when there is capacity for the spot type. */
  resume: boolean;
  isSpot: boolean;
  mounts: Mount[];
  extraDataDiskGB: number;
  enableCommonData: boolean;
  enableDocker: boolean;
  dockerStorageGB: number;
  initScript: string;
  /** Runs at every start; may be empty. */
  startCommand: string;
  /** Runs command and user of the image in place of Berth's start script. */
  runImageCommand: boolean;
  /** Price of a period while it runs without its GPUs; null: it has them. */
  cpuOnlyPriceMicros: number | null;
}

/** Changes that the next start or restart applies. An absent member stays as it is. */
export interface PendingChange {
  resize?: { type: InstanceSpec['type']; priceMicros: number };
  mounts?: Mount[];
  ports?: number[];
}

/** Properties that an engine can't change: another value needs another container. */
export interface ContainerShape {
  mounts: Mount[];
  nodePorts: NodePort[];
  gpus: number;
  /** Absent without GPUs. */
  gpuName?: string;
  runtime: string;
  /** 0 where the engine does not limit root disks. */
  rootDiskGB: number;
}

/** `nodePort` is 0 until allotted. Port 22 is always included. */
export interface NodePort {
  port: number;
  nodePort: number;
}

/** End of a run in use, by a request or a failure, until its container has ended. */
export interface Ending {
  /** Longest time of the charge; it ends with the container. */
  byMs: number;
  /** Reason of its refund (`start-outcomes.ts`); '': it is paid. */
  refundFor: Diagnosis;
  /** Micro-dollars per hour of the run, whose type a restart may change. */
  priceMicros: number;
}

/** The host has taken a GPU of the run, which costs the price without GPUs from then on. */
export interface LostGpu {
  runStartedAtMs: number;
  /** Time of the first reading that says so. */
  sinceMs: number;
  /** Micro-dollars per hour; of no effect where time is paid ahead. */
  priceMicros: number;
}

/** Processes of a run that the kernel killed for want of memory. */
export interface MemoryKills {
  runStartedAtMs: number;
  count: number;
  /** Time of the last reading with more. */
  atMs: number;
}

export const readinessProofs = ['ssh', 'notebook', 'nothing'] as const;
export interface Observed {
  status: InstanceStatus;
  phase: Phase;
  diagnosis: Diagnosis;
  diagnosisMessage: string;
  message: string;
  healthy: boolean;
  /** Last stop; 0 while it runs or never stopped. */
  stoppedAtMs: number;
  /** Start of the current Running period; 0 while not Running. */
  runningSinceMs: number;
  /** Start of the last run, by the engine's clock; 0: not known. */
  runStartedAtMs: number;
  ending: Ending | null;
  lostGpu: LostGpu | null;
  memoryKills: MemoryKills | null;
  /**
   * End of the last engine outage, or first observation of the run. Deadlines count from a request
   * that is later.
   */
  countedFromMs: number;
  /** Proof of readiness. `nothing` (no sshd, no notebook) means no health checks. */
  answersBy: (typeof readinessProofs)[number];
  /** The gateway serves ssh for an image without sshd. Set by each start. */
  sshFront: boolean;
  /** Why the run may have an older image than the registry; may be empty. */
  imageNote: string;
  /** Last failed command of the init script, with line and output; may be empty. */
  initFailure: string;
  /** Exit code of the start command in this run; null before. */
  startExit: number | null;
  startFailure: string;
  /** Null: not reported in this run. */
  notebook: NotebookServer | null;
  progress: Progress | null;
}

/** Saved root disk. Recreates the container of an Archived instance, and later a lost one. */
export interface Archive {
  ref: string;
  sizeBytes: number;
  generation: number;
  /** Earlier archives' refs, until they are removed. */
  replaces: string[];
}

/**
 * `none`: no run was `Running`. `kept`: only in the container. `saved`: in the archive. `lost`: the
 * container is gone; a start needs `newRootDisk`. Always `none` where engines keep no root disks.
 */
export const rootDiskStates = ['none', 'kept', 'saved', 'lost'] as const;
export type RootDiskState = (typeof rootDiskStates)[number];

export interface Instance {
  id: InstanceId;
  ownerId: UserId;
  ownerName: string;
  createdAtMs: number;
  spec: InstanceSpec;
  priceMicros: Micros;
  nodePorts: NodePort[];
  desired: DesiredState;
  /** Grows with every request; results computed under an older one are dropped. */
  generation: number;
  /** A start or restart was requested, and the end of the run before not observed yet. */
  mustHalt: boolean;
  /** Whether the engine was ever asked for the container. If not, no observation is needed. */
  everEnsured: boolean;
  /** The account's ssh keys changed after the container got its control files. */
  filesStale: boolean;
  attempts: number;
  /** Time of the current request; deadlines count from it. */
  requestedAtMs: number;
  initExit: number | null;
  /** Joined the capacity queue; null when placed or in no need of capacity. */
  waitsSinceMs: number | null;
  waitsUntilMs: number | null;
  /** Opening of the off-peak window that it waits for without capacity; null: it does not wait. */
  notBeforeMs: number | null;
  /** Announced end of the off-peak window. */
  windowEndsAtMs: number | null;
  /** Announced stop of a reclaimed spot instance. */
  reclaimAtMs: number | null;
  stopPolicy: StopPolicy;
  archive: Archive | null;
  rootDisk: RootDiskState;
  /** Counts changes outside of reconciles that keep the generation: name, changes, stop policy. */
  revision: number;
  pending: PendingChange | null;
  /** Container of before the last applied change, until its root disk is saved and it is gone. */
  oldContainer: ContainerShape | null;
  /** Refs of archives in progress, written before the save. */
  unfinished: string[];
  diskUsage: DiskUsage;
  operation: Operation;
  observed: Observed;
}

/** The current archive, or the image of the launch. */
export const imageRefOf = ({ archive, spec }: Pick<Instance, 'archive' | 'spec'>): string =>
  archive?.ref ?? spec.image.ref;

/** Whether its container runs, as far as Berth knows, and is requested to, or is ending. */
export const isInUse = ({
  desired,
  observed: { status, phase, ending },
}: Pick<Instance, 'desired' | 'observed'>): boolean =>
  ending !== null || (desired === 'running' && (status === 'Running' || phase === 'WaitReady'));

/** Null once the run has ended, or has its GPU again. */
export function lostGpuOf(instance: Pick<Instance, 'desired' | 'observed'>): LostGpu | null {
  const { lostGpu, runStartedAtMs } = instance.observed;
  return isInUse(instance) && lostGpu?.runStartedAtMs === runStartedAtMs ? lostGpu : null;
}

/** Null: none in the current run. */
export function memoryKillsOf({ observed }: Pick<Instance, 'observed'>): MemoryKills | null {
  const { status, memoryKills, runStartedAtMs } = observed;
  return status === 'Running' && memoryKills?.runStartedAtMs === runStartedAtMs ? memoryKills : null;
}

/** Start of the run; now, if that is not known, or a minute ago: nobody knows what was then. */
export function runSinceMs({ observed: { runStartedAtMs } }: Pick<Instance, 'observed'>, nowMs: number): number {
  const lagMs = nowMs - runStartedAtMs;
  return lagMs > 0 && lagMs < MINUTE_MS ? runStartedAtMs : nowMs;
}

/** Sets times in the future, left by a clock step, to now. Null if there are none. */
export function clampFutureTimes(instance: Instance, nowMs: number): Instance | null {
  const { requestedAtMs, observed } = instance;
  if (requestedAtMs <= nowMs && observed.countedFromMs <= nowMs) return null;
  const countedFromMs = Math.min(observed.countedFromMs, nowMs);
  return { ...instance, requestedAtMs: Math.min(requestedAtMs, nowMs), observed: { ...observed, countedFromMs } };
}
