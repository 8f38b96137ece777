/** The wish to make an instance's own disks larger. It goes on beside whatever the instance does; nothing else of it changes. */
import { dataDiskGB, dockerDiskGB } from './disk.ts';
import { isLasting } from './instance-states.ts';
import type { Instance } from './instance.ts';
import { beginOperation } from './operation.ts';

/** What is not set stays. */
export interface DiskSizes {
  dataDiskGB?: number | undefined;
  dockerStorageGB?: number | undefined;
}

/** Why it can't be wished now, with what would work; null when it can. */
export function refusalOfExpansion({ observed, operation }: Pick<Instance, 'observed' | 'operation'>): string | null {
  if (operation.endedAtMs === null) return `its ${operation.kind} is under way; wait until that has ended`;
  return isLasting(observed.status) ? null : `it is ${observed.status}; wait until it is Running, or stop it`;
}

/** Why these are no sizes to expand to, with what would work; null when they are. */
export function refusalOfSizes({ spec }: Pick<Instance, 'spec'>, sizes: DiskSizes): string | null {
  const whyNot = (name: string, nowGB: number, wantedGB: number | undefined): string | null => {
    if (wantedGB === undefined || wantedGB > nowGB) return null;
    const why = wantedGB === nowGB ? 'which it is already' : 'and a disk can not be made smaller';
    return `field "${name}" is ${wantedGB}, but the disk is of ${nowGB} GB, ${why}; ask for more than ${nowGB}`;
  };
  if (sizes.dockerStorageGB !== undefined && !spec.enableDocker)
    return 'field "dockerStorageSize" is set, but the instance was launched without Docker inside; leave it out';
  return (
    whyNot('dataDiskGB', dataDiskGB(spec), sizes.dataDiskGB) ??
    whyNot('dockerStorageSize', dockerDiskGB(spec), sizes.dockerStorageGB)
  );
}

export function applyExpansion(instance: Instance, sizes: DiskSizes, nowMs: number): Instance {
  const { spec } = instance;
  const extraDataDiskGB = (sizes.dataDiskGB ?? dataDiskGB(spec)) - spec.type.dataDiskGB;
  const dockerStorageGB = sizes.dockerStorageGB ?? spec.dockerStorageGB;
  return {
    ...instance,
    spec: { ...spec, extraDataDiskGB, dockerStorageGB },
    generation: instance.generation + 1,
    requestedAtMs: nowMs,
    operation: beginOperation('expandDisk', 'user', nowMs),
  };
}

export const isExpanding = ({ operation }: Pick<Instance, 'operation'>): boolean =>
  operation.kind === 'expandDisk' && operation.endedAtMs === null;
