/**
 * One instance as Berth keeps it: what was asked (`spec`, a snapshot that later changes of the catalog don't touch), what is
 * wished (`desired`, `generation`), what was last seen (`observed`), and how the present wish fares (`operation`). The wish is
 * written by use-cases, the rest by passes.
 */
import type { ChargeMode, Image, InstanceType } from './catalog.ts';
import type { InstanceId, RegionId, UserId, VolumeId } from './ids.ts';
import type { StopPolicy } from './stop-policy.ts';
import type { DesiredState, Diagnosis, InstanceStatus, Phase } from './instance-states.ts';
import type { DiskUsage } from './disk.ts';
import type { Micros } from './money.ts';
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
  type: Omit<InstanceType, 'pricesMicros' | 'regionId'>;
  chargeMode: ChargeMode;
  /** Subscription periods; 1 for `perHour` and `tidePerHour`. */
  duration: number;
  isSpot: boolean;
  mounts: Mount[];
  extraDataDiskGB: number;
  enableCommonData: boolean;
  enableDocker: boolean;
  dockerStorageGB: number;
  initScript: string;
}

/** A port inside the instance and the port of the host that the engine publishes for it (0 until allotted). 22 is always among them. */
export interface NodePort {
  port: number;
  nodePort: number;
}

export interface Observed {
  status: InstanceStatus;
  phase: Phase;
  diagnosis: Diagnosis;
  diagnosisMessage: string;
  message: string;
  healthy: boolean;
  /** When it last came to rest without running; 0 while it runs or never did. */
  stoppedAtMs: number;
  /** Since when it has been Running without a break; 0 while it does not. */
  runningSinceMs: number;
  /** Deadlines count from here if it is later than the wish: the engine was away before. */
  countedFromMs: number;
  /** What told that it was ready: an image without sshd and notebook is not asked for its health. */
  answersBy: 'ssh' | 'notebook' | 'nothing';
  /** Its image has no sshd, so the gateway's process serves ssh in its stead; said anew by each start. */
  sshFront: boolean;
  /** How far a pull, a build or an archive is; null while none is under way. */
  progress: Progress | null;
}

/** Image of the root disk that stands for the container of an Archived instance, and after that for one that was lost. */
export interface Archive {
  ref: string;
  sizeBytes: number;
  /** Generation of the wish it was made for. */
  generation: number;
  /** Refs of the archives before it, until they are removed. */
  replaces: string[];
}

export interface Instance {
  id: InstanceId;
  ownerId: UserId;
  ownerName: string;
  createdAtMs: number;
  spec: InstanceSpec;
  priceMicros: Micros;
  nodePorts: NodePort[];
  desired: DesiredState;
  /** Moved by every wish; a result computed under an older one is dropped. */
  generation: number;
  /** A restart was wished and the halt that it begins with has not been seen yet. */
  mustHalt: boolean;
  /** Whether the engine was ever asked to make it: until then nothing has to be looked for. */
  everEnsured: boolean;
  /** The account's keys changed since the running container got its control files. */
  filesStale: boolean;
  /** Failed tries in a row since the wish. */
  attempts: number;
  /** When the present wish was made; deadlines are counted from it. */
  requestedAtMs: number;
  /** Exit code of the init script: null until it ended. */
  initExit: number | null;
  /** In line for capacity since then; null when it has its place, or needs none. */
  waitsSinceMs: number | null;
  /** When waiting in line ends in a failure. */
  waitsUntilMs: number | null;
  stopPolicy: StopPolicy;
  archive: Archive | null;
  /** Refs under which its root disk was asked to be kept, written before that, until the archive names them or they are removed. */
  unfinished: string[];
  diskUsage: DiskUsage;
  /** How the present wish fares; those before it are in the history. */
  operation: Operation;
  observed: Observed;
}

/** With the times that deadlines count from, if the date has gone back since they were written down, set to now; null when it has not. */
export function clampFutureTimes(instance: Instance, nowMs: number): Instance | null {
  const { requestedAtMs, observed } = instance;
  if (requestedAtMs <= nowMs && observed.countedFromMs <= nowMs) return null;
  const countedFromMs = Math.min(observed.countedFromMs, nowMs);
  return { ...instance, requestedAtMs: Math.min(requestedAtMs, nowMs), observed: { ...observed, countedFromMs } };
}
