/** The instance object of `docs/interface.md` §2.1, stored as JSON; lists join the texts. */
import { inGB } from '../storage/disk.ts';
import { dataDiskGB } from './instance-disks.ts';
import { fullDisksText } from '../storage/disk-usage.ts';
import { stopDueAtMs } from './stop-policy.ts';
import { refusalOfLostRootDisk } from './desired-state.ts';
import { legalActions } from './instance-states.ts';
import { currentPriceMicros } from './instance-change.ts';
import { memoryKillsOf, type Instance, type Mount, type PendingChange } from './instance.ts';
import type { NotebookServer } from './notebook-state.ts';
import { type Region, toDollars } from '../regions/catalog.ts';

/** Increment with every change of the members or their sources: start-up rewrites stored texts. */
export const PUBLIC_OBJECT_VERSION = 3;

export const publicRegion = (region: Region) => ({
  domain: region.domain,
  location: region.location,
  name: region.name,
  sshAddress: region.sshAddress,
  value: region.value,
  regionId: region.id,
});

/** Path of the notebook under the gateway (docs/interface.md, decisions: `subUrl`). */
export const notebookPath = (instanceId: string): string => `/notebook/${instanceId}/`;

const publicMount = ({ mountPath, volumeName, volumeId, volumeType }: Mount) => ({
  mountPath,
  remoteStorageName: volumeName,
  remoteStorageId: volumeId,
  type: volumeType,
});

/** Null members stay as they are. */
export const publicChange = (pending: PendingChange | null) =>
  pending && {
    instanceType: pending.resize
      ? {
          instanceTypeId: pending.resize.type.id,
          instanceTypeName: pending.resize.type.name,
          price: toDollars(pending.resize.priceMicros),
        }
      : null,
    remoteStorages: pending.mounts?.map(publicMount) ?? null,
    nodePorts: pending.ports ?? null,
  };

function memoryKillsText(instance: Pick<Instance, 'observed' | 'spec'>): string {
  const kills = memoryKillsOf(instance);
  if (kills === null) return '';
  const at = `${new Date(kills.atMs).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const who =
    kills.count === 1 ? `a program was killed at ${at}` : `${kills.count} programs were killed, the last at ${at}`;
  return `${who}: the instance's memory of ${instance.spec.type.memoryGB} GB was full`;
}
const publicNotebook = (notebook: NotebookServer | null) =>
  notebook && { state: notebook.state, text: notebook.text, endedAtUnixMs: notebook.endedAtMs };

export type PublicInstance = ReturnType<typeof publicInstance>;

export function publicInstance(instance: Instance, region: Region) {
  const { spec, observed } = instance;
  const { type, image } = spec;
  const dataGB = dataDiskGB(spec);
  const reachable = observed.status === 'Running';
  return {
    instanceMetadata: {
      instanceAuth: { ownerUserName: instance.ownerId },
      instanceId: instance.id,
      instanceUsername: 'root',
    },
    instanceSpecInfo: {
      name: spec.name,
      instanceBillingInfo: {
        chargeMode: spec.chargeMode,
        duration: spec.duration,
        price: toDollars(currentPriceMicros(instance)),
        unit: '$',
        type: spec.isSpot ? 'Spot' : 'On-Demand',
      },
      imageInfo: {
        architecture: image.architecture,
        isPublic: String(image.isPublic),
        name: image.name,
        tags: image.tags.length > 0 ? image.tags : null,
        type: image.type,
      },
      instanceConfiguration: {
        enableCommonData: spec.enableCommonData,
        enableDocker: spec.enableDocker,
        InstanceDiskAmountRequest: { rootDiskAmountGiReq: type.rootDiskGB, dataDiskAmountGiReq: dataGB },
        dockerStorageSize: spec.dockerStorageGB,
      },
      instanceTypeInfo: {
        instanceId: type.id,
        instanceTypeName: type.name,
        cpu: { amount: type.cpuCores, type: type.cpuType, unit: 'core' },
        memory: { amount: type.memoryGB, type: 'RAM', unit: 'GB' },
        gpu: { amount: type.gpuCount, type: type.gpuName, unit: 'card' },
        disk: { amount: type.rootDiskGB, type: 'root', unit: 'GB' },
      },
      regionInfo: publicRegion(region),
      remoteStorages: spec.mounts.map(publicMount),
      nodePorts: instance.nodePorts.map(({ port, nodePort }) => ({
        port,
        address: reachable ? region.sshAddress : '',
        nodePort: reachable ? nodePort : 0,
      })),
      isSpotInstance: spec.isSpot,
    },
    instanceRuntimeInfo: {
      createAtUnixMs: instance.createdAtMs,
      status: observed.status,
      phase: observed.phase,
      message: [memoryKillsText(instance), observed.message || fullDisksText(instance.diskUsage.full)]
        .filter(Boolean)
        .join('; '),
      diagnosisReason: observed.diagnosis,
      diagnosisMessage: observed.diagnosisMessage,
      healthy: observed.healthy,
      subUrl: notebookPath(instance.id),
      instanceDiskUsageInfo: {
        rootDiskUsedGi: inGB(instance.diskUsage.rootBytes),
        dataDiskUsedGi: inGB(instance.diskUsage.dataBytes),
      },
      instanceDiskAmountInfo: { rootDiskAmountGi: type.rootDiskGB, dataDiskAmountGi: dataGB },
      stopTimestamp: observed.stoppedAtMs,
      scheduledStopTimestamp: stopDueAtMs(instance) ?? 0,
    },
    actions: legalActions(observed.status, instance.desired).filter(
      (action) => action === 'start' || refusalOfLostRootDisk(action, instance, false) === null,
    ),
    withoutGpu: spec.cpuOnlyPriceMicros !== null,
    pendingChanges: publicChange(instance.pending),
    notebook: reachable ? publicNotebook(observed.notebook) : null,
  };
}
