/** Abilities of a storage class, as the cluster's objects say them. */
import { makeCache } from '../../async/cache.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { StorageClass, VolumeSnapshotClass } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';

export interface ClassFacts {
  whyNoGrowth?: string;
  whyNoCopies?: string;
  /** Name of the class that copies are made by; absent with `whyNoCopies`. */
  snapshotClass?: string;
  /** The volume is made when a Pod first uses the claim. */
  bindsAtUse: boolean;
}

export interface ClassNames {
  storageClass: string;
  /** Default: the default class of the driver, or its only one. */
  snapshotClass?: string | undefined;
}

const DEFAULT_SNAPSHOT_CLASS = 'snapshot.storage.kubernetes.io/is-default-class';

export function classFacts(
  { provisioner, allowVolumeExpansion, volumeBindingMode }: StorageClass,
  snapshotClasses: readonly VolumeSnapshotClass[],
  names: ClassNames,
): ClassFacts {
  const own = snapshotClasses.filter(({ driver }) => driver === provisioner);
  const named = own.find(({ metadata }) => metadata?.name === names.snapshotClass);
  const usual = own.find(({ metadata }) => metadata?.annotations?.[DEFAULT_SNAPSHOT_CLASS] === 'true');
  const chosen = names.snapshotClass === undefined ? (usual ?? (own.length === 1 ? own[0] : undefined)) : named;
  const snapshotClass = chosen?.metadata?.name;
  return {
    bindsAtUse: volumeBindingMode === 'WaitForFirstConsumer',
    ...(allowVolumeExpansion === true
      ? {}
      : {
          whyNoGrowth: `the storage class ${names.storageClass} does not let volumes grow (allowVolumeExpansion); create a larger volume and copy the files in an instance that mounts both`,
        }),
    ...(snapshotClass === undefined
      ? { whyNoCopies: whyNoSnapshotClass(own.length, provisioner, names.snapshotClass) }
      : { snapshotClass }),
  };
}

function whyNoSnapshotClass(found: number, driver: string, name: string | undefined): string {
  if (name !== undefined) return `the cluster has no snapshot class ${name} of the driver ${driver}`;
  if (found === 0) return `the cluster has no snapshot class of the driver ${driver}`;
  return `the cluster has ${found} snapshot classes of the driver ${driver}, and none is the default; name one for the pool`;
}

const FACTS_AGE_MS = 600_000;
const DEADLINE_MS = 20_000;

export interface ClassReader {
  /** Throws if the cluster does not answer, or lacks the class. */
  read(): Promise<ClassFacts>;
  /** Last facts that were read; null before the first. */
  last(): ClassFacts | null;
}

export function makeClassReader(cluster: Cluster, names: ClassNames, elapsed: () => number): ClassReader {
  let last: ClassFacts | null = null;
  const cache = makeCache<ClassFacts>({
    async load() {
      const signal = AbortSignal.timeout(DEADLINE_MS);
      const found = await cluster.get(resources.storageClasses, names.storageClass, signal);
      if (found === null) throw new Error(await missingClass(cluster, names.storageClass, signal));
      last = classFacts(found, await listSnapshotClasses(cluster, signal), names);
      return last;
    },
    elapsed,
    ttlMs: FACTS_AGE_MS,
    maxEntries: 1,
  });
  return { read: () => cache.get(names.storageClass), last: () => last };
}

async function missingClass(cluster: Cluster, name: string, signal: AbortSignal): Promise<string> {
  const all = await cluster.list(resources.storageClasses, signal);
  const found = all.map(({ metadata }) => metadata?.name).join(', ');
  return `the cluster has no storage class ${name}; it has ${found === '' ? 'none' : found}`;
}

/** A cluster without the snapshot controller has no such resource. */
const listSnapshotClasses = (cluster: Cluster, signal: AbortSignal): Promise<VolumeSnapshotClass[]> =>
  cluster.list(resources.snapshotClasses, signal).catch((error: unknown) => {
    if (isFailure(error, 'absent')) return [];
    throw error;
  });
