/** The instance object and the launch (docs/interface.md §2.1 and §4.1), fields in that order. */
import { z } from 'zod';
import { chargeModes } from '../../domain/regions/catalog.ts';
import { MAX_UNITS } from '../../domain/money/paid-time.ts';
import { notebookStates } from '../../domain/compute/notebook-state.ts';
import { actions, diagnoses, instanceStatuses, phases } from '../../domain/compute/instance-states.ts';
import {
  answer,
  decimal,
  flag,
  id,
  instanceIdBody,
  integer,
  label,
  named,
  oneOfText,
  pagerAnswer,
  plainText,
  request,
  text,
  unixMs,
  wholeNumber,
  WITHOUT_NUL,
} from '../common.ts';
import { environmentFields } from './environment.ts';
import { allLabels, instanceListRequest, newLabels, shownLabels } from '../list-filters.ts';
import { quoteAnswer } from './quote.ts';
import { decision, jsonRoute, operationRoute, readRoute } from '../route.ts';

/** Header that lets a launch or start wait for capacity instead of failing with 409. */
export const WAIT_HEADER = 'X-Berth-Wait-For-Capacity';
/** Meaning of the value `true`. */
export const DEFAULT_WAIT_S = 24 * 3_600;
export const MAX_WAIT_S = 7 * 24 * 3_600;

const BILLED_BY_THE_HOUR: readonly string[] = ['tidePerHour', 'perHour'];
const MAX_DISK_GB = 100_000;
const MAX_NODE_PORTS = 32;
const MAX_MOUNTS = 32;
const MAX_SCRIPT_BYTES = 256 * 1024;

/** Adding 0 turns JSON's -0 into 0. */
const wholeGB = wholeNumber(0, MAX_DISK_GB).overwrite((sizeGB) => sizeGB + 0);

const script = z
  .string()
  .refine(
    (text) => text.isWellFormed() && !text.includes('\0') && new TextEncoder().encode(text).length <= MAX_SCRIPT_BYTES,
    { error: `must be at most ${MAX_SCRIPT_BYTES} bytes of UTF-8 text without NUL` },
  )
  .meta({ maxLength: MAX_SCRIPT_BYTES, pattern: WITHOUT_NUL });

const diskGB = wholeNumber(1, MAX_DISK_GB);

const billingOptions = {
  autoRenew: z.boolean().describe('Buy the same again at the end; for `perDay`, `perWeek` and `perMonth`').optional(),
  resume: z
    .boolean()
    .describe('Start again in the next off-peak window, or when there is capacity; for `tidePerHour` and spot')
    .optional(),
};

const billing = named(
  'BillingRequest',
  z
    .object({
      chargeMode: z.enum(chargeModes).describe('Billing mode'),
      duration: wholeNumber(1, MAX_UNITS).describe('Number of periods; 1 for `perHour` and `tidePerHour`'),
      ...billingOptions,
    })
    .superRefine((value, ctx) => {
      if (BILLED_BY_THE_HOUR.includes(value.chargeMode) && value.duration !== 1) {
        ctx.addIssue({
          code: 'custom',
          path: ['duration'],
          message: `must be 1 for ${value.chargeMode}`,
          input: value.duration,
        });
      }
    }),
);

const remoteStorage = request('RemoteStorageRequest', {
  mountPath: plainText(4095).describe('Mount path inside the instance, outside of other mounts'),
  remoteStorageName: plainText(300).describe('Volume name'),
  remoteStorageId: id.describe('Volume ID'),
  type: plainText(100).describe('Volume type'),
});

const instanceConfiguration = request('InstanceConfigurationRequest', {
  extraDataDiskSizeDB: wholeGB.default(0).describe('GB to add to the data disk of the instance type'),
  dataDiskGB: diskGB
    .optional()
    .describe('Total size of the data disk in GB, also below that of the type; excludes `extraDataDiskSizeDB`'),
  enableCommonData: z
    .boolean()
    .describe("Mount the operator's data sets at `/root/commonData`, read-only; refused by regions on other machines"),
  enableDocker: z.boolean().describe('Run Docker for the instance'),
  dockerStorageSize: wholeGB.default(0).describe('Disk of its Docker in GB; 0 selects 20 GB'),
  initScript: script.describe('Script that runs as root at the first start; may be empty'),
});

const nodePorts = z
  .array(wholeNumber(1, 65535))
  .max(MAX_NODE_PORTS)
  .refine((ports) => new Set(ports).size === ports.length, { error: 'must name each port once' })
  .meta({ uniqueItems: true });

export const launchRequest = request('LaunchRequest', {
  name: label(128).describe('Instance name'),
  imageId: id.describe('Image ID'),
  instanceTypeId: id.describe('Instance type ID'),
  region: id.describe('Region ID'),
  billing: billing.describe('Billing'),
  remoteStorages: z.array(remoteStorage).max(MAX_MOUNTS).describe('Volumes to mount; may be empty'),
  instanceConfiguration: instanceConfiguration.describe('Configuration'),
  isSpotInstance: z.boolean().default(false).describe('Use spot capacity'),
  nodePorts: nodePorts.describe('Ports to forward beside port 22; may be empty'),
  ...environmentFields,
  startCommand: script.describe('Script that runs as root at every start; may be empty').optional(),
  runImageCommand: z
    .boolean()
    .describe("Run the image's own command as its user in its folder, without Berth's start script")
    .optional(),
  labels: newLabels,
});
export type LaunchRequest = z.output<typeof launchRequest>;

export const newRootDisk = z
  .boolean()
  .default(false)
  .describe('Start from the image, or the last archive, if the root disk is lost; without effect otherwise');

export const startRequest = request('StartRequest', {
  instanceId: id.describe('Instance ID, `notebook-<uuid>`'),
  withoutGpu: z
    .boolean()
    .default(false)
    .describe('Run without the GPUs of the type, at the price of its CPU cores, until the next start'),
  newRootDisk,
});
export const updateRequest = request(
  'UpdateInstanceRequest',
  {
    instanceId: id.describe('Instance ID'),
    name: label(128).describe('New name, at once').optional(),
    labels: allLabels.optional(),
    instanceTypeId: id.describe('Other instance type of the same region').optional(),
    remoteStorages: z.array(remoteStorage).max(MAX_MOUNTS).describe('All volumes to mount').optional(),
    nodePorts: nodePorts.describe('All ports to forward beside port 22').optional(),
    startCommand: script.describe('Script that runs as root at every start; empty for none').optional(),
  },
  'Requires a change. A field left out stays; the current value revokes a pending change',
);
export const expandDiskRequest = request('ExpandDiskRequest', {
  instanceId: id.describe('Instance ID'),
  dataDiskGB: diskGB.describe('New total size of the data disk in GB').optional(),
  dockerStorageSize: diskGB.describe('New total size of the Docker disk in GB').optional(),
});
export const setBillingRequest = request(
  'SetBillingRequest',
  { instanceId: id.describe('Instance ID'), ...billingOptions },
  'Requires a change. A field left out stays',
);
export const instanceBillingOptions = {
  autoRenew: flag('Whether the paid time is bought again at its end'),
  resume: flag('Whether it starts again in the next off-peak window, or when there is capacity'),
};
export const setBillingAnswer = answer('SetBillingAnswer', {
  instanceId: text('Instance ID'),
  ...instanceBillingOptions,
});
export const instanceIdAnswer = answer('InstanceIdAnswer', { instanceId: text('Instance ID, `notebook-<uuid>`') });

const amount = answer('Amount', { amount: decimal('Quantity'), type: text('Model; may be empty'), unit: text('Unit') });

export const regionFields = {
  domain: text('Domain name of the gateway'),
  location: text('Geographic location'),
  name: text('Region name'),
  sshAddress: text('IP address for ssh'),
  value: text('Region value'),
  regionId: text('Region ID'),
};
const regionInfo = answer('RegionInfo', regionFields);

const instanceMetadata = answer('InstanceMetadata', {
  instanceAuth: answer('InstanceAuth', { ownerUserName: text('User ID of the owner') }).describe('Owner'),
  instanceId: text('Instance ID, `notebook-<uuid>`'),
  instanceUsername: text('User name inside the instance'),
});

const instanceBillingInfo = answer('InstanceBilling', {
  chargeMode: z.enum(chargeModes).describe('Billing mode'),
  duration: decimal('Number of periods'),
  price: decimal('Price for one period'),
  unit: text('Unit of the price: the dollar sign'),
  type: text('Billing type, such as `On-Demand`'),
});

const imageInfo = answer('InstanceImage', {
  architecture: text('CPU architecture; may be empty'),
  isPublic: text('`true` for an image of the operator, `false` for one of the account'),
  name: text('Image name; may be empty'),
  tags: z.array(z.string()).nullable().describe('Tags, or null'),
  type: text('Kind of image; may be empty'),
});

const instanceDisks = answer('InstanceDiskAmountRequest', {
  rootDiskAmountGiReq: decimal('Root disk in GB'),
  dataDiskAmountGiReq: decimal('Data disk in GB'),
});
const configuration = answer('InstanceConfiguration', {
  enableCommonData: flag("Whether the operator's data sets are mounted"),
  enableDocker: flag('Whether the instance has Docker'),
  InstanceDiskAmountRequest: instanceDisks.describe('Requested disks'),
  dockerStorageSize: decimal('Disk of its Docker in GB'),
});

const instanceTypeInfo = answer('InstanceType', {
  instanceId: text('Instance type ID'),
  instanceTypeName: text('Name of the instance type'),
  cpu: amount.describe('CPU cores'),
  memory: amount.describe('Memory'),
  gpu: amount.describe('GPUs'),
  disk: amount.describe('Root disk'),
});

const mount = answer('RemoteStorage', {
  mountPath: text('Mount path inside the instance'),
  remoteStorageName: text('Volume name at the launch'),
  remoteStorageId: text('Volume ID'),
  type: text('Volume type'),
});
const nodePort = answer('NodePort', {
  port: integer('Port inside the instance'),
  address: text('IP address of the forwarded port; empty until `Running`'),
  nodePort: integer('Forwarded port; 0 until `Running`'),
});

const instanceSpecInfo = answer('InstanceSpec', {
  name: text('Instance name'),
  instanceBillingInfo: instanceBillingInfo.describe('Billing'),
  imageInfo: imageInfo.describe('Image'),
  instanceConfiguration: configuration.describe('Configuration'),
  instanceTypeInfo: instanceTypeInfo.describe('Instance type'),
  regionInfo: regionInfo.describe('Region'),
  remoteStorages: z.array(mount).describe('Mounted volumes'),
  nodePorts: z.array(nodePort).meta({ uniqueItems: true }).describe('Forwarded ports, with port 22'),
  isSpotInstance: flag('Whether the instance uses spot capacity'),
});

const diskUsage = answer('InstanceDiskUsage', {
  rootDiskUsedGi: decimal('Used GB of the root disk'),
  dataDiskUsedGi: decimal('Used GB of the data disk'),
});
const diskAmount = answer('InstanceDiskAmount', {
  rootDiskAmountGi: decimal('Root disk in GB'),
  dataDiskAmountGi: decimal('Data disk in GB'),
});
const instanceRuntimeInfo = answer('InstanceRuntime', {
  createAtUnixMs: unixMs('Creation time'),
  status: z.enum(instanceStatuses).describe('Status'),
  phase: oneOfText(phases, 'Step of the current transition'),
  message: text('Status message'),
  diagnosisReason: oneOfText(Object.keys(diagnoses), 'Reason of a problem; empty without one'),
  diagnosisMessage: text('Cause of the problem and the next step; empty without one'),
  healthy: flag('Health of the instance'),
  subUrl: text('Path of the notebook at the gateway'),
  instanceDiskUsageInfo: diskUsage.describe('Disk usage'),
  instanceDiskAmountInfo: diskAmount.describe('Disk sizes'),
  stopTimestamp: integer('Stop time, Unix milliseconds; 0 when unset'),
  scheduledStopTimestamp: integer('Scheduled stop time, Unix milliseconds; 0 when unset'),
});

const pendingChanges = answer('PendingChanges', {
  instanceType: answer('PendingInstanceType', {
    instanceTypeId: text('Instance type ID'),
    instanceTypeName: text('Name of the instance type'),
    price: decimal('Price for one period'),
  })
    .nullable()
    .describe('Instance type; null for no change'),
  remoteStorages: z.array(mount).nullable().describe('Mounted volumes; null for no change'),
  nodePorts: z
    .array(integer('Port inside the instance'))
    .meta({ uniqueItems: true })
    .nullable()
    .describe('Forwarded ports, with port 22; null for no change'),
})
  .nullable()
  .describe('Changes that the next start or restart applies; null without one');

export const updateAnswer = answer('UpdateInstanceAnswer', {
  instanceId: text('Instance ID'),
  appliesAt: z
    .enum(['now', 'nextStart'])
    .describe(
      '`nextStart`: the instance has pending changes or another start command; its name and labels change at once in any case',
    ),
  pendingChanges,
});

export const instance = answer('Instance', {
  instanceMetadata: instanceMetadata.describe('Identity'),
  instanceSpecInfo: instanceSpecInfo.describe('Request, resolved'),
  instanceRuntimeInfo: instanceRuntimeInfo.describe('Runtime data'),
  actions: z.array(z.enum(actions)).meta({ uniqueItems: true }).describe('Actions that the status allows now'),
  withoutGpu: flag('Whether its last start was without the GPUs of its type'),
  pendingChanges,
  notebook: answer('NotebookServer', {
    state: z
      .enum(notebookStates)
      .describe('`none`: the image has no Jupyter; `failed`: it does not start, and is tried again'),
    text: text('Last line of its log at its last end; may be empty'),
    endedAtUnixMs: integer('Last end of a server that was ready, Unix milliseconds; 0: none in this run'),
  })
    .nullable()
    .describe('Notebook server; null while the instance is not `Running`, or if its state is not known'),
  labels: shownLabels,
});
export type InstanceObject = z.output<typeof instance>;

export const instanceListAnswer = answer('ListInstancesAnswer', {
  instances: z.array(instance).describe('Instances of the page'),
  pager: pagerAnswer.describe('Page and length of the list'),
});

export const openRequest = request('OpenRequest', {
  instanceId: id.describe('Instance ID'),
  port: wholeNumber(1, 65535).describe('Port to open; by default the notebook').optional(),
});
export const openAnswer = answer('OpenAnswer', {
  url: z.url().describe('Link for a browser, valid once and for a minute'),
});

export const launchRoutes = {
  launch: operationRoute('/instance/create', launchRequest, instanceIdAnswer, {
    waits: true,
    quoted: true,
    errors: 'plain',
    summary: 'Launch an instance',
    source: 'docs/interface.md §4.1',
  }),
  quote: readRoute('/instance/quote', launchRequest, quoteAnswer, {
    summary: 'Return the costs of a launch, and an ID that holds its price for five minutes; launches nothing',
    source: decision('instances'),
  }),
  listInstances: readRoute('/instance/list', instanceListRequest, instanceListAnswer, {
    compressed: true,
    errors: 'plain',
    summary: "List the caller's instances, newest first",
    source: 'docs/interface.md §4.2',
  }),
} as const;

const act = (name: string, summary: string) =>
  operationRoute(`/instance/${name}`, instanceIdBody, instanceIdAnswer, {
    errors: 'plain',
    summary,
    source: decision('instances'),
  });

export const instanceRoutes = {
  stop: act('stop', 'Stop an instance; its disks stay'),
  terminate: act('terminate', 'Terminate an instance, in any state'),
  start: operationRoute('/instance/start', startRequest, instanceIdAnswer, {
    errors: 'plain',
    summary: 'Start a stopped instance, with its pending changes',
    source: `${decision('instances')}; withoutGpu and newRootDisk are ours`,
    waits: true,
  }),
  restart: act('restart', 'Restart a running instance, with its pending changes'),
  updateInstance: jsonRoute('/instance/update', updateRequest, updateAnswer, {
    idempotent: true,
    summary: 'Rename and label an instance; change its type, volumes and node ports at its next start or restart',
  }),
  setBilling: jsonRoute('/instance/billing', setBillingRequest, setBillingAnswer, {
    idempotent: true,
    summary: 'Set what follows when paid time, an off-peak window or spot capacity ends',
  }),
  archive: operationRoute('/instance/archive', instanceIdBody, instanceIdAnswer, {
    summary: 'Archive an instance: store the root disk as an image and remove the container; start restores it',
    source: 'ours; docs/interface.md §3 has the status Archived',
  }),
  expandDisk: operationRoute('/instance/disk/expand', expandDiskRequest, instanceIdAnswer, {
    summary: 'Grow the data disk or the Docker disk of an instance, even while it runs',
    source: 'ours; docs/interface.md §2.1 and §4.1 have the sizes',
  }),
} as const;

export const openRoutes = {
  open: jsonRoute('/instance/open', openRequest, openAnswer, {
    summary: 'Create a link that opens the notebook or a port in a browser, valid once and for a minute',
    source: decision('instances'),
  }),
} as const;
