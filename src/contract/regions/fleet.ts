/** The hosts of the operator: capacity, GPUs with their holders, and pools. */
import { z } from 'zod';
import { regionDrain, regionEngine } from './catalog.ts';
import { slowdowns } from '../../domain/regions/card-health.ts';
import { gpuSlices } from '../../domain/regions/catalog.ts';
import {
  answer,
  decimal,
  empty,
  flag,
  id,
  integer,
  request,
  text,
  textOrNull,
  unixMs,
  wholeNumber,
} from '../common.ts';
import { operatorReadRoute } from '../route.ts';

const numberOrNull = (description: string) => z.number().nullable().describe(description);

const figure = (what: string) =>
  numberOrNull(`${what}, by the last sample of the holder or reading of the host; null without one`);

const resource = answer(
  'FleetResource',
  {
    total: decimal('What instances of the region may hold, on hosts that an autoscaler may add, too'),
    promised: decimal('Held by instances that run or start'),
    free: decimal('Left for starts; negative where the engine has lost capacity'),
    used: numberOrNull('Use by the last samples; null without samples'),
  },
  'A resource of a region',
);
const holder = answer(
  'GpuHolder',
  {
    instanceId: text('Instance ID'),
    name: text('Name of the instance'),
    accountId: text('Account of the owner'),
    username: text('User name of the owner'),
  },
  'The instance that holds the GPU',
);
const finding = answer('GpuFinding', {
  reason: text('Reason of the quarantine'),
  evidence: text('Action that the driver asks for, number of errors, or time in the kernel log; may be empty'),
  sinceUnixMs: unixMs('Start of the quarantine'),
});
const link = answer('GpuLink', {
  uuid: text('UUID of the other card'),
  kind: text(
    'As `nvidia-smi topo -m` prints it: `NV` and a number of NVLinks, `PIX` for one PCIe switch, `PXB` for several, `PHB` for a host bridge, `NODE` within a NUMA node, `SYS` between two',
  ),
});
const gpu = answer('FleetGpu', {
  index: integer('Position among the GPUs of the region, from 0'),
  cardId: text('ID of the GPU'),
  uuid: textOrNull('UUID of the card; null where its readings are not known'),
  model: text('Model as the engine reports it'),
  gpuSlice: z.enum(gpuSlices).describe('Kind of the part of a card; absent for whole cards').optional(),
  holder: holder.nullable().describe('The instance that holds the GPU; null: free'),
  holderIsExact: flag(
    'Whether the engine says that this very GPU is held; `false`: one of its model is, and it is drawn here',
  ),
  busyPercent: figure('Utilization'),
  memoryUsedBytes: figure('Used memory in bytes'),
  memoryTotalBytes: figure('Memory in bytes'),
  powerMilliwatts: figure('Power in milliwatts'),
  temperatureCelsius: figure('Temperature in degrees Celsius'),
  slowedBy: z
    .array(z.enum(slowdowns))
    .describe('Reasons for which the card is slower than it could be: heat, the power brake, its power limit'),
  driverVersion: textOrNull('Version of its driver; null: not known'),
  cudaVersion: textOrNull('Newest version of CUDA that the driver has; null: not known'),
  numaNode: numberOrNull('NUMA node of the host that the card is at; null: not known'),
  links: z.array(link).describe('Links to the other cards of its host; empty: not known'),
  quarantine: z.array(z.string()).describe('Reasons for which the GPU takes no launches; empty: it takes them'),
  findings: z.array(finding).describe('The same reasons with evidence and start'),
});
const host = answer('FleetHost', {
  cpuCores: decimal('CPU cores'),
  memoryGB: decimal('Memory in GB'),
  gpuNum: integer('Number of GPUs'),
  gpuName: text('GPU models, with commas; empty without GPUs'),
});
const pool = answer('FleetPool', {
  name: text('Pool'),
  totalGB: decimal('What disks may take'),
  promisedGB: decimal('Taken by the sizes of disks'),
  freeGB: decimal('Left for new disks'),
  usedGB: decimal('Written by disks, by the last measurement of each'),
  fileSystemGB: numberOrNull('Size of the file system; null while it is not measured'),
  fileSystemFreeGB: numberOrNull('Free space of the file system; null while it is not measured'),
});
const type = answer('FleetType', {
  instanceTypeId: text('Instance type ID'),
  instanceTypeName: text('Name of the instance type'),
  gpuNum: integer('Number of GPUs'),
  gpuName: text('GPU model; empty for a CPU type'),
  isSpot: flag('Whether the type is spot capacity'),
  fitsNow: integer('Instances of the type that could start now, behind those that wait'),
});
const region = answer('FleetRegion', {
  regionId: text('Region ID'),
  regionName: text('Region name'),
  retired: flag('Whether the region takes no new launches'),
  engine: regionEngine.describe('Engine of the region'),
  drain: regionDrain,
  holding: integer('Instances that hold capacity'),
  waiting: integer('Launches and starts that wait for capacity'),
  cpuCores: resource.describe('CPU cores'),
  memoryGB: resource.describe('Memory in GB'),
  gpuNum: resource.describe('GPUs; `used` is the sum of their utilization'),
  nodePorts: resource.describe('Node ports'),
  largestHosts: z
    .array(host)
    .describe('Sizes of the hosts that no other host exceeds; empty for a region that is one host'),
  presentHosts: host
    .nullable()
    .describe('Sum of the hosts that are there, where an autoscaler may add hosts; null: `total` counts no others'),
  gpus: z.array(gpu).describe('GPUs of the region, at most 1,024'),
  pools: z.array(pool).describe('Pools of the region'),
  types: z.array(type).describe('Offered instance types of the region'),
});
export const fleetAnswer = answer('Fleet', { regions: z.array(region).describe('All regions of this server') });

const usePart = (what: string) =>
  z
    .object({
      total: decimal('Capacity'),
      promised: decimal('Held by instances, or sizes of disks'),
      used: numberOrNull('Measured use; null without samples'),
    })
    .describe(what);
export const fleetHistoryRequest = request('FleetHistoryRequest', {
  regionId: id.describe('Region ID'),
  fromUnixMs: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe('Start, Unix milliseconds; by default a day before `toUnixMs`')
    .optional(),
  toUnixMs: wholeNumber(0, Number.MAX_SAFE_INTEGER).describe('End, Unix milliseconds; by default now').optional(),
});
const useStep = answer('FleetUse', {
  atUnixMs: unixMs('Start of the step'),
  cpuCores: usePart('CPU cores'),
  memoryGB: usePart('Memory in GB'),
  gpuNum: usePart('GPUs; `used` is the sum of their utilization'),
  diskGB: usePart('Disks of all pools in GB; `used` is what is written'),
});
export const fleetHistoryAnswer = answer('FleetHistory', {
  stepSeconds: integer('Length of a step: 5 minutes, an hour or 6 hours, by the length of the time asked for'),
  steps: z.array(useStep).describe('Means of each step with data, oldest first'),
});

export const fleetRoutes = {
  fleetHistory: operatorReadRoute('/admin/fleet/history', fleetHistoryRequest, fleetHistoryAnswer, {
    compressed: true,
    summary: 'Show capacity and use of a region over at most 90 days (operators)',
  }),
  fleet: operatorReadRoute('/admin/fleet', empty, fleetAnswer, {
    compressed: true,
    summary: 'Show the capacity of each region: GPUs with their holders, pools, and what would fit now (operators)',
  }),
} as const;
