/** Requests to grow an instance's own disks, which run beside its other operations. */
import { dataDiskGB, dockerDiskGB } from './instance-disks.ts';
import { isLasting } from './instance-states.ts';
import type { Instance } from './instance.ts';
import { beginOperation } from './operation.ts';

/** An absent size stays unchanged. */
export interface DiskSizes {
  dataDiskGB?: number | undefined;
  dockerStorageGB?: number | undefined;
}

export function refusalOfExpansion({ observed, operation }: Pick<Instance, 'observed' | 'operation'>): string | null {
  if (operation.endedAtMs === null) return `its ${operation.kind} is under way; wait until that has ended`;
  return isLasting(observed.status) ? null : `it is ${observed.status}; wait until it is Running, or stop it`;
}

export function refusalOfSizes({ spec }: Pick<Instance, 'spec'>, sizes: DiskSizes): string | null {
  const refusalOfSize = (name: string, nowGB: number, wantedGB: number | undefined): string | null => {
    if (wantedGB === undefined || wantedGB > nowGB) return null;
    const why = wantedGB === nowGB ? 'which it is already' : 'and a disk can not be made smaller';
    return `field "${name}" is ${wantedGB}, but the disk is of ${nowGB} GB, ${why}; ask for more than ${nowGB}`;
  };
  if (sizes.dockerStorageGB !== undefined && !spec.enableDocker)
    return 'field "dockerStorageSize" is set, but the instance was launched without Docker inside; leave it out';
  return (
    refusalOfSize('dataDiskGB', dataDiskGB(spec), sizes.dataDiskGB) ??
    refusalOfSize('dockerStorageSize', dockerDiskGB(spec), sizes.dockerStorageGB)
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
