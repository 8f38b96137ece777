/** The instance object and the launch (docs/interface.md §2.1 and §4.1), fields in that order. */
import { z } from 'zod';
import { id, label, pagerAnswer, pagerRequest, plainText } from './common.ts';

export const chargeModes = ['tidePerHour', 'perHour', 'perDay', 'perWeek', 'perMonth'] as const;
const BILLED_BY_THE_HOUR: readonly string[] = ['tidePerHour', 'perHour'];

/** docs/interface.md §3. */
export const instanceStatuses = [
  'Running',
  'Stopped',
  'Starting',
  'StartingFailed',
  'Initializing',
  'InitializationFailed',
  'Archived',
  'Released',
  'PullingImage',
  'Restarting',
] as const;

/** What can be asked of an instance; which of it is legal follows from its state (`src/domain/instance-states.ts`). */
export const actions = ['start', 'stop', 'restart', 'archive', 'terminate'] as const;

const MAX_PERIODS = 120;
const MAX_DISK_GB = 100_000;
const MAX_NODE_PORTS = 32;
const MAX_MOUNTS = 32;
const MAX_INIT_SCRIPT_BYTES = 256 * 1024;

/** Adding 0 turns the -0 that JSON can carry into 0. */
const wholeGB = z
  .number()
  .int()
  .min(0)
  .max(MAX_DISK_GB)
  .overwrite((sizeGB) => sizeGB + 0);

const billing = z
  .object({ chargeMode: z.enum(chargeModes), duration: z.number().int().min(1).max(MAX_PERIODS) })
  .superRefine((value, ctx) => {
    if (BILLED_BY_THE_HOUR.includes(value.chargeMode) && value.duration !== 1) {
      ctx.addIssue({
        code: 'custom',
        path: ['duration'],
        message: `must be 1 for ${value.chargeMode}`,
        input: value.duration,
      });
    }
  });

const remoteStorage = z.object({
  /** What it may be depends on the other mounts and on the disks Berth mounts itself: control decides. */
  mountPath: plainText(4095),
  remoteStorageName: plainText(300),
  remoteStorageId: id,
  type: plainText(100),
});

const instanceConfiguration = z.object({
  extraDataDiskSizeDB: wholeGB.default(0),
  enableCommonData: z.boolean(),
  enableDocker: z.boolean(),
  /** Of the disk on which its Docker keeps all; 0 is 20 GB. */
  dockerStorageSize: wholeGB.default(0),
  initScript: z
    .string()
    .refine(
      (text) =>
        text.isWellFormed() && !text.includes('\0') && new TextEncoder().encode(text).length <= MAX_INIT_SCRIPT_BYTES,
      { error: `must be at most ${MAX_INIT_SCRIPT_BYTES} bytes of UTF-8 text without NUL` },
    ),
});

const nodePorts = z
  .array(z.number().int().min(1).max(65535))
  .max(MAX_NODE_PORTS)
  .refine((ports) => new Set(ports).size === ports.length, { error: 'must name each port once' });

export const launchRequest = z.object({
  name: label(128),
  imageId: id,
  instanceTypeId: id,
  region: id,
  billing,
  remoteStorages: z.array(remoteStorage).max(MAX_MOUNTS),
  instanceConfiguration,
  isSpotInstance: z.boolean().default(false),
  nodePorts,
});
export type LaunchRequest = z.output<typeof launchRequest>;

export const instanceIdBody = z.object({ instanceId: id });
export const expandDiskRequest = z.object({
  instanceId: id,
  /** How large it is to be in all: `dataDiskAmountGi` of the instance grows to this. */
  dataDiskGB: z.number().int().min(1).max(MAX_DISK_GB).optional(),
  dockerStorageSize: z.number().int().min(1).max(MAX_DISK_GB).optional(),
});
export const instanceIdAnswer = z.strictObject({ instanceId: z.string() });

const amount = z.strictObject({ amount: z.number(), type: z.string(), unit: z.string() });

export const regionInfo = z.strictObject({
  domain: z.string(),
  location: z.string(),
  name: z.string(),
  sshAddress: z.string(),
  value: z.string(),
  regionId: z.string(),
});

export const instance = z.strictObject({
  instanceMetadata: z.strictObject({
    instanceAuth: z.strictObject({ ownerUserName: z.string() }),
    instanceId: z.string(),
    instanceUsername: z.string(),
  }),
  instanceSpecInfo: z.strictObject({
    name: z.string(),
    instanceBillingInfo: z.strictObject({
      chargeMode: z.enum(chargeModes),
      duration: z.number(),
      price: z.number(),
      unit: z.string(),
      type: z.string(),
    }),
    imageInfo: z.strictObject({
      architecture: z.string(),
      isPublic: z.string(),
      name: z.string(),
      tags: z.array(z.string()).nullable(),
      type: z.string(),
    }),
    instanceConfiguration: z.strictObject({
      enableCommonData: z.boolean(),
      enableDocker: z.boolean(),
      InstanceDiskAmountRequest: z.strictObject({ rootDiskAmountGiReq: z.number(), dataDiskAmountGiReq: z.number() }),
      dockerStorageSize: z.number(),
    }),
    instanceTypeInfo: z.strictObject({
      instanceId: z.string(),
      instanceTypeName: z.string(),
      cpu: amount,
      memory: amount,
      gpu: amount,
      disk: amount,
    }),
    regionInfo,
    remoteStorages: z.array(
      z.strictObject({
        mountPath: z.string(),
        remoteStorageName: z.string(),
        remoteStorageId: z.string(),
        type: z.string(),
      }),
    ),
    nodePorts: z.array(z.strictObject({ port: z.number().int(), address: z.string(), nodePort: z.number().int() })),
    isSpotInstance: z.boolean(),
  }),
  instanceRuntimeInfo: z.strictObject({
    createAtUnixMs: z.number().int(),
    status: z.enum(instanceStatuses),
    phase: z.string(),
    message: z.string(),
    diagnosisReason: z.string(),
    diagnosisMessage: z.string(),
    healthy: z.boolean(),
    subUrl: z.string(),
    instanceDiskUsageInfo: z.strictObject({ rootDiskUsedGi: z.number(), dataDiskUsedGi: z.number() }),
    instanceDiskAmountInfo: z.strictObject({ rootDiskAmountGi: z.number(), dataDiskAmountGi: z.number() }),
    stopTimestamp: z.number().int(),
    scheduledStopTimestamp: z.number().int(),
  }),
  /** Ours beside the interface's members: what is legal now. */
  actions: z.array(z.enum(actions)),
});
export type InstanceObject = z.output<typeof instance>;

export const pageRequest = z.object({ pager: pagerRequest });
export const instanceListAnswer = z.strictObject({ instances: z.array(instance), pager: pagerAnswer });

export const openRequest = z.object({ instanceId: id, port: z.number().int().min(1).max(65535).optional() });
export const openAnswer = z.strictObject({ url: z.url() });
