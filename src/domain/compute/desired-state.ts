import { withoutPastStop } from './stop-policy.ts';
import { dataDiskGB, dockerDiskGB } from './instance-disks.ts';
import { isLasting, nextStatus, type Action } from './instance-states.ts';
import type { Instance, InstanceSpec } from './instance.ts';
import { beginOperation, type Cause } from './operation.ts';

const leftOfRootDisk = ({ archive, spec }: Pick<Instance, 'archive' | 'spec'>): string =>
  archive === null ? `the image ${spec.image.name}` : 'its last archive';

const lossOf = {
  container: 'the container was removed outside of Berth, and the root disk with it',
  archive: 'the image of the archived root disk was removed from the engine outside of Berth',
};

export const lostRootDiskText = (instance: Pick<Instance, 'archive' | 'spec'>, lost: keyof typeof lossOf): string =>
  `${lossOf[lost]}; a start with "newRootDisk": true begins from ${leftOfRootDisk(instance)}`;

/** Returns why a lost root disk forbids the action, or null. */
export function refusalOfLostRootDisk(
  action: Action,
  instance: Pick<Instance, 'archive' | 'spec' | 'rootDisk'>,
  newRootDisk: boolean,
): string | null {
  if (instance.rootDisk !== 'lost') return null;
  const why = 'its root disk is lost, because its container or image was removed outside of Berth';
  if (action === 'archive')
    return `${why}, so there is nothing to save; start it with a new root disk, or terminate it`;
  if (action !== 'start' || newRootDisk) return null;
  return `${why}. The data disk, the shared folder and volumes are kept. Send "newRootDisk": true to start from ${leftOfRootDisk(instance)}, or terminate it`;
}

export function withNewRootDisk(instance: Instance): Instance {
  if (instance.rootDisk !== 'lost') return instance;
  if (instance.archive !== null) return { ...instance, rootDisk: 'saved' };
  // Once for each root disk.
  return { ...instance, rootDisk: 'none', initExit: null, observed: { ...instance.observed, initFailure: '' } };
}

/** Throws if the action is illegal (`refusalOfAction`) and `transitions` has no such event. */
export function applyAction(action: Action, instance: Instance, nowMs: number, cause: Cause = 'user'): Instance {
  const { observed } = instance;
  const next = {
    ...instance,
    generation: instance.generation + 1,
    requestedAtMs: nowMs,
    attempts: 0,
    notBeforeMs: null,
    waitsSinceMs: null,
    waitsUntilMs: null,
    operation: beginOperation(action, cause, nowMs),
  };
  const cleared = {
    ...observed,
    diagnosis: '',
    diagnosisMessage: '',
    message: '',
    countedFromMs: 0,
    progress: null,
    sshFront: false,
  } as const;
  switch (action) {
    case 'stop': {
      // The end of the run says more than the cause of its stop.
      const { diagnosis, diagnosisMessage } = observed.diagnosis === cause ? observed : cleared;
      const stopping = { ...cleared, phase: 'Stopping', diagnosis, diagnosisMessage } as const;
      return { ...next, desired: 'stopped', mustHalt: false, observed: stopping };
    }
    case 'start':
      return {
        ...next,
        desired: 'running',
        // A failed start may have left its container, with the limits of another type.
        mustHalt: true,
        windowEndsAtMs: null,
        reclaimAtMs: null,
        stopPolicy: withoutPastStop(instance.stopPolicy, nowMs),
        observed: {
          ...cleared,
          status: nextStatus(observed.status, hadContainer(instance) ? 'start' : 'relaunch'),
          phase: 'Queued',
          stoppedAtMs: 0,
        },
      };
    case 'restart':
      return {
        ...next,
        desired: 'running',
        mustHalt: true,
        observed: {
          ...cleared,
          status: nextStatus(observed.status, 'restart'),
          phase: 'Stopping',
          healthy: false,
          runningSinceMs: 0,
        },
      };
    case 'archive':
      return {
        ...next,
        desired: 'archived',
        mustHalt: false,
        observed: { ...cleared, phase: observed.status === 'Running' ? 'Stopping' : 'Archiving' },
      };
    case 'terminate':
      return {
        ...next,
        desired: 'released',
        mustHalt: false,
        observed: {
          ...cleared,
          status: nextStatus(observed.status, 'terminate'),
          phase: 'Cleaning',
          // The engine removes it without a grace.
          ending: null,
          healthy: false,
          runningSinceMs: 0,
          stoppedAtMs: observed.stoppedAtMs || nowMs,
        },
      };
    default:
      return action satisfies never;
  }
}

const hadContainer = ({ everEnsured, observed }: Instance): boolean =>
  (everEnsured && observed.status !== 'InitializationFailed') || observed.status === 'Archived';

export interface DiskSizes {
  dataDiskGB?: number | undefined;
  dockerStorageGB?: number | undefined;
}

export function refusalOfExpansion({ observed, operation }: Pick<Instance, 'observed' | 'operation'>): string | null {
  if (operation.endedAtMs === null) return `its operation ${operation.kind} is running; wait until it ends`;
  return isLasting(observed.status) ? null : `the instance is ${observed.status}; wait until it is Running, or stop it`;
}

export function refusalOfSizes({ spec }: Pick<Instance, 'spec'>, sizes: DiskSizes): string | null {
  const refusalOfSize = (name: string, nowGB: number, wantedGB: number | undefined): string | null => {
    if (wantedGB === undefined || wantedGB > nowGB) return null;
    const why = wantedGB === nowGB ? '' : ', and a disk cannot shrink';
    return `field "${name}" is ${wantedGB}, but the disk has ${nowGB} GB${why}; send more than ${nowGB}`;
  };
  if (sizes.dockerStorageGB !== undefined && !spec.enableDocker)
    return 'field "dockerStorageSize" is set, but the instance was launched without Docker inside; leave the field out';
  return (
    refusalOfSize('dataDiskGB', dataDiskGB(spec), sizes.dataDiskGB) ??
    refusalOfSize('dockerStorageSize', dockerDiskGB(spec), sizes.dockerStorageGB)
  );
}

export const withSizes = (spec: InstanceSpec, sizes: DiskSizes): InstanceSpec => ({
  ...spec,
  extraDataDiskGB: (sizes.dataDiskGB ?? dataDiskGB(spec)) - spec.type.dataDiskGB,
  dockerStorageGB: sizes.dockerStorageGB ?? spec.dockerStorageGB,
});

export function applyExpansion(instance: Instance, sizes: DiskSizes, nowMs: number): Instance {
  return {
    ...instance,
    spec: withSizes(instance.spec, sizes),
    generation: instance.generation + 1,
    requestedAtMs: nowMs,
    operation: beginOperation('expandDisk', 'user', nowMs),
  };
}

export const isExpanding = ({ operation }: Pick<Instance, 'operation'>): boolean =>
  operation.kind === 'expandDisk' && operation.endedAtMs === null;

/** Returns why its root disk can't be saved, or null. */
export function refusalOfSave({
  desired,
  everEnsured,
  rootDisk,
  observed: { status },
}: Pick<Instance, 'desired' | 'everEnsured' | 'rootDisk' | 'observed'>): string | null {
  if (rootDisk === 'lost')
    return 'its root disk is lost, because its container or image was removed outside of Berth; start it with a new root disk first';
  if (desired === 'archived')
    return `the instance is ${status === 'Archived' ? 'Archived' : 'being archived'}; start it first`;
  if (status === 'Running' || (status === 'Stopped' && everEnsured)) return null;
  return `the instance is ${status}; only an instance that is Running, or Stopped after a run, can be saved`;
}
