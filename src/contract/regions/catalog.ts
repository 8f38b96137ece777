/** Instance types, prices and regions: docs/interface.md §10, catalog. */
import { z } from 'zod';
import { chargeModes, gpuSlices } from '../../domain/regions/catalog.ts';
import { volumeTypes } from '../../domain/storage/disk.ts';
import { consistencies } from '../../domain/storage/snapshot.ts';
import { answer, decimal, empty, flag, integer, integerOrNull, text, unixMs } from '../common.ts';
import { listedOffPeak, storagePrices } from './catalog-admin.ts';
import { regionFields } from '../compute/instance.ts';
import { sizeLimit } from '../storage/volume.ts';
import { decision, readRoute } from '../route.ts';

const price = answer('Price', {
  chargeMode: z.enum(chargeModes).describe('Billing mode'),
  price: decimal('Dollars for one period of the billing mode'),
  offPeak: listedOffPeak.describe('Hours of `tidePerHour`; absent for other modes, and without windows').optional(),
});
const offeredType = answer('CatalogInstanceType', {
  instanceTypeId: text('Instance type ID, for a launch'),
  gpuNum: integer('Number of GPUs; 0 for CPU types'),
  gpuMemoryGB: decimal('Memory of each GPU in GB; absent where the engine does not say it').optional(),
  gpuSlice: z
    .enum(gpuSlices)
    .describe(
      'The GPUs are parts of cards: `mig` has own memory and processors; `shared` takes turns on a card with other instances, whose memory is not limited',
    )
    .optional(),
  gpuCard: text('Model of the cards whose parts the GPUs are; absent for whole cards').optional(),
  stockStatus: z.enum(['InStock', 'OutOfStock']).describe('Whether a launch fits now'),
  fitsNow: integer('Instances of the type that could start now, behind those that wait; at most 100'),
  price: z.array(price).describe('Price of each billing mode'),
  instanceTypeName: text('Name of the instance type'),
  cpuCores: decimal('CPU cores'),
  memoryGB: decimal('Memory in GB'),
  rootDiskGB: decimal('Root disk in GB'),
  dataDiskGB: decimal('Data disk in GB'),
});
const offeredRegion = answer('CatalogRegion', {
  regionId: text('Region ID'),
  regionName: text('Region name'),
  storagePrices: storagePrices.describe('Prices of storage in the region'),
  instanceTypeInfos: z.array(offeredType).describe('Instance types of the region'),
});
const family = answer(
  'CatalogFamily',
  {
    gpuName: text('GPU model; empty for CPU types'),
    isSpotInstance: flag('Whether the family is spot capacity'),
    regionInfos: z.array(offeredRegion).describe('Regions that offer the family'),
  },
  'Instance types with the same GPU',
);
export const catalogAnswer = answer('Catalog', {
  instanceInfos: z.array(family).describe('Families of instance types'),
});

export const regionEngine = answer('RegionEngine', {
  name: text('Engine type'),
  answers: flag('Whether the engine answers'),
  text: text('Result of the last probe'),
});
const offeredVolumeType = answer('RegionVolumeType', {
  type: z.enum(volumeTypes).describe('Volume type'),
  pool: text('Pool that stores volumes of the type'),
  freeGB: integer('Capacity left in GB'),
  sizeLimit: sizeLimit.describe('`hard`: writes beyond the size fail; `soft`: usage is measured only'),
  usage: z
    .enum(['instant', 'walk', 'mounted'])
    .describe(
      '`instant`: read from the file system; `walk`: sum of the files; `mounted`: known while an instance mounts it, if its file system is its own',
    ),
  copies: z
    .enum(consistencies)
    .describe('`atomic`: snapshots show one moment; `live`: files change while they are copied'),
  whyNoCopies: text('Reason why volumes have neither snapshots nor copies').optional(),
  whyNoGrowth: text('Reason why volumes keep the size of their creation').optional(),
  dockerInside: flag('Whether Docker inside instances can use the pool'),
});
/** A fact, the names of container runtimes, or the runtime by name of the instance type. */
const isolation = z.union([z.string(), z.boolean(), z.array(z.string()), z.record(z.string(), z.string())]);
export const regionDrain = answer('RegionDrain', {
  reason: text('Reason that the operator gave'),
  sinceUnixMs: unixMs('Start of the drain'),
  stopsAtUnixMs: integerOrNull('Time from which running instances are stopped, Unix milliseconds; null: they stay'),
})
  .nullable()
  .describe('An operator lets nothing launch or start here; null without a drain');
const region = answer('Region', {
  ...regionFields,
  engine: regionEngine.describe('Engine of the region'),
  capabilities: z
    .record(z.string(), z.union([z.string(), z.boolean(), z.record(z.string(), isolation)]))
    .describe(
      'Capabilities of the engine by name; `isolation` holds those that keep instances from each other and from the host, `sizes` those that show programs the size of the instance',
    ),
  volumeTypes: z.array(offeredVolumeType).describe('Volume types of the region'),
  drain: regionDrain,
  storagePrices: storagePrices.describe('Prices of storage in the region'),
});
export const regionListAnswer = answer('ListRegionsAnswer', { regions: z.array(region).describe('All regions') });

export const catalogRoutes = {
  catalog: readRoute('/resource/user/instance/list', empty, catalogAnswer, {
    compressed: true,
    errors: 'plain',
    summary: 'List instance types, regions, prices and stock',
    source: decision('catalog'),
  }),
} as const;

export const regionRoutes = {
  listRegions: readRoute('/region/list', empty, regionListAnswer, {
    compressed: true,
    summary: 'List regions and their capabilities',
    source: decision('catalog'),
  }),
} as const;
