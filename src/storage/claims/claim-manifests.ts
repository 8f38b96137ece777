/** Manifests of claims, snapshots and the Pods that serve files; pure. */
import { BYTES_PER_GB, type DiskId } from '../../domain/storage/disk.ts';
import type { KubernetesEngineSettings } from '../../domain/regions/kubernetes-settings.ts';
import { SERVE_COMMANDS } from '../../domain/compute/serve-commands.ts';
import type { ObjectMeta, PersistentVolumeClaim, Pod, VolumeSnapshot } from '../../kubernetes/api-objects.ts';
import { ONE_NODE_LABEL } from '../../kubernetes/one-node.ts';
import { quantityOf } from '../../kubernetes/quantity.ts';
import { diskMeta, filesPodName, objectName, type Owner } from './claim-names.ts';

export interface ClaimClass extends Owner {
  storageClass: string;
  /** Whether Pods on several nodes may mount a claim at once. */
  accessMode: 'ReadWriteOnce' | 'ReadWriteMany';
}

/** `from`: name of a snapshot. */
export const claimManifest = (
  at: ClaimClass,
  disk: DiskId,
  sizeGB: number,
  from?: string,
): PersistentVolumeClaim & { metadata: { name: string } } => ({
  metadata: { ...diskMeta(at, disk, objectName(disk)), name: objectName(disk) },
  spec: {
    accessModes: [at.accessMode],
    storageClassName: at.storageClass,
    volumeMode: 'Filesystem',
    resources: { requests: { storage: sizeText(sizeGB) } },
    ...(from === undefined
      ? {}
      : { dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: from } }),
  },
});

export interface SnapshotToMake {
  name: string;
  snapshotClass: string;
  /** Name of the claim. */
  of: string;
}

export const snapshotManifest = (
  owner: Owner,
  disk: DiskId,
  { name, snapshotClass, of }: SnapshotToMake,
): VolumeSnapshot => ({
  metadata: diskMeta(owner, disk, name),
  spec: { volumeSnapshotClassName: snapshotClass, source: { persistentVolumeClaimName: of } },
});

/** Folder of the Pod at which it mounts the disk. */
export const DISK_FOLDER = '/disk';
/** Folder of the Pod that is not the disk's, for the time of the last use. */
export const STATE_FOLDER = '/run/berth-files';
export const FILES_CONTAINER = 'files';

export interface FilesPodOptions {
  image: string;
  /** The Pod ends itself after this time without a command. */
  idleS: number;
  /**
   * Nodes of instances: a volume that is made for the Pod may be bound to its zone for ever.
   */
  placement?: FilesPodPlacement | undefined;
}

export type FilesPodPlacement = Pick<KubernetesEngineSettings, 'nodeSelector' | 'tolerations'>;

/**
 * Pod that serves the files of one disk by commands. Owners of the files choose what a command
 * meets there: the Pod has no account, no network port and nothing else to read or write. `node`:
 * where a Pod mounts the disk already, which another node may not.
 */
export const filesPod = (
  owner: ClaimClass,
  disk: DiskId,
  { image, idleS, placement: { nodeSelector, tolerations } = {} }: FilesPodOptions,
  node: string | null,
): Pod => ({
  metadata: filesPodMeta(owner, disk),
  spec: {
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 1,
    ...(nodeSelector === undefined ? {} : { nodeSelector: { ...nodeSelector } }),
    ...(tolerations === undefined ? {} : { tolerations: tolerations.map((one) => ({ ...one })) }),
    ...(node === null ? {} : { affinity: onNode(node) }),
    securityContext: { runAsUser: 0, runAsGroup: 0, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: FILES_CONTAINER,
        image,
        imagePullPolicy: 'IfNotPresent',
        command: ['sh', '-c', SERVE_COMMANDS, 'sh', STATE_FOLDER, String(idleS)],
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          // Root of instances owns the files, with any modes.
          capabilities: { drop: ['ALL'], add: ['DAC_OVERRIDE', 'FOWNER'] },
        },
        resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '1', memory: '256Mi' } },
        volumeMounts: [
          { name: 'disk', mountPath: DISK_FOLDER },
          { name: 'state', mountPath: STATE_FOLDER },
        ],
      },
    ],
    volumes: [
      { name: 'disk', persistentVolumeClaim: { claimName: objectName(disk) } },
      { name: 'state', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } },
    ],
  },
});

/** Instances of the account follow the Pod to the node that has its shared folder. */
function filesPodMeta(owner: ClaimClass, disk: DiskId): ObjectMeta {
  const meta = diskMeta(owner, disk, filesPodName(disk), 'files');
  const account = disk.id.split('/')[0] ?? '';
  if (disk.kind !== 'shared' || owner.accessMode !== 'ReadWriteOnce') return meta;
  return { ...meta, labels: { ...meta.labels, [ONE_NODE_LABEL]: account } };
}

const onNode = (node: string) => ({
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }],
    },
  },
});

export const sizeText = (sizeGB: number): string => `${sizeGB}Gi`;

/** Bytes of a quantity; null if it is none. */
export function bytesOfQuantity(quantity: string | undefined): number | null {
  const bytes = quantityOf(quantity ?? '');
  return Number.isNaN(bytes) ? null : bytes;
}

/** Whole units of 2³⁰ bytes. */
export const gbOfQuantity = (quantity: string | undefined): number | null => {
  const bytes = bytesOfQuantity(quantity);
  return bytes === null ? null : Math.floor(bytes / BYTES_PER_GB);
};
