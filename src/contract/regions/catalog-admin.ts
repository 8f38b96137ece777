/** The catalog for administrators: instance types, images of the operator, parts of changes. */
import { z } from 'zod';
import { canonicalTimeZone } from '../../domain/kernel/calendar.ts';
import { fromDollars, toDollars, type ChargeMode, type StorageKind } from '../../domain/regions/catalog.ts';
import { weekdays } from '../../domain/regions/off-peak.ts';
import {
  answer,
  decimal,
  flag,
  id,
  integer,
  label,
  named,
  pagerAnswer,
  pageRequest,
  plainText,
  request,
  text,
  unixMs,
  wholeNumber,
} from '../common.ts';
import { adminRoute, operatorReadRoute } from '../route.ts';
import { typePlacement } from './node-placement.ts';

const MAX_DOLLARS = 1_000_000;
const MAX_DISK_GB = 100_000;
const MAX_WINDOWS = 28;

const version = wholeNumber(1, Number.MAX_SAFE_INTEGER).describe(
  'Version of the row that was read; after another change the request is refused with the current row',
);
export const dryRun = z
  .boolean()
  .default(false)
  .describe('`true`: validates the change and answers what it would do, and changes nothing');
export const rowVersion = integer('Version of the row, which each change increments; updates need it');
export const retiredFlag = flag('Whether new launches are refused');
export const warnings = z.array(z.string()).describe('What is accepted, but may not be intended; empty if nothing');

export const affected = answer(
  'AffectedInstances',
  {
    accounts: integer('Accounts with such instances'),
    running: integer('Instances that run, or are requested to run'),
    stopped: integer('Other instances that are not terminated'),
    atOtherPrice: integer('Instances that keep another price than this type would have; 0 if prices are not concerned'),
  },
  'Instances that use the row. A change of a type or an image leaves them as they are',
);

const dollars = z
  .number()
  .min(0, { abort: true })
  .max(MAX_DOLLARS, { abort: true })
  .refine((price) => toDollars(fromDollars(price)) === price, {
    error: `must be 0 to ${MAX_DOLLARS} dollars, with at most 6 decimals`,
  });
export const prices = named(
  'TypePrices',
  z.strictObject({
    tidePerHour: dollars.describe('Dollars for an off-peak hour'),
    perHour: dollars.describe('Dollars for an hour'),
    perDay: dollars.describe('Dollars for a day'),
    perWeek: dollars.describe('Dollars for a week'),
    perMonth: dollars.describe('Dollars for a month'),
  } satisfies Record<ChargeMode, z.ZodType>),
  'Price of each billing mode',
);

const MAX_STORAGE_DOLLARS = 1_000;
const storageDollars = z
  .number()
  .min(0, { abort: true })
  .max(MAX_STORAGE_DOLLARS, { abort: true })
  .refine((price) => toDollars(fromDollars(price)) === price, {
    error: `must be 0 to ${MAX_STORAGE_DOLLARS} dollars, with at most 6 decimals`,
  });
/** Also of the public catalog. */
export const storagePrices = named(
  'StoragePrices',
  z.strictObject({
    filesystem: storageDollars.describe('Dollars for volumes of type `filesystem`'),
    highspeedstorage: storageDollars.describe('Dollars for volumes of type `highspeedstorage`'),
    snapshot: storageDollars.describe('Dollars for snapshots'),
    keptDisk: storageDollars.describe('Dollars for the disks of stopped instances'),
  } satisfies Record<StorageKind, z.ZodType>),
  'Prices of a GB for 30 days',
);

/** Capacity is counted in thousandths of a core and in MiB. */
const cores = z
  .number()
  .min(0.1)
  .max(1_024)
  .refine((count) => Number.isInteger(Math.round(count * 1e6) / 1e3), { error: 'must have at most 3 decimals' });
const memory = z
  .number()
  .min(0.125)
  .max(65_536)
  .refine((sizeGB) => Number.isInteger(sizeGB * 1_024), { error: 'must be whole MiB: a multiple of 1/1024' });
const runtime = z.string().regex(/^[\w.-]{0,100}$/, {
  error: 'must be a name of a container runtime, such as runsc, or empty for the default',
});

const typeFields = {
  name: label(64).describe('Name, unique in the region'),
  cpuCores: cores.describe('CPU cores'),
  memoryGB: memory.describe('Memory in GB'),
  gpuNum: wholeNumber(0, 64).describe('Number of GPUs; 0 for a CPU type'),
  gpuName: plainText(64).describe('GPU model; empty for a CPU type'),
  rootDiskGB: wholeNumber(1, MAX_DISK_GB).describe('Root disk in GB'),
  dataDiskGB: wholeNumber(1, MAX_DISK_GB).describe('Data disk in GB'),
  cpuType: plainText(100).describe('CPU model or architecture'),
  runtime: runtime.describe("Container runtime; empty for the engine's default"),
  placement: typePlacement.nullable().describe('Nodes in a cluster; null: all of the region'),
  prices: prices.describe('Prices for new launches'),
};

export const typeCreateRequest = request('CreateTypeRequest', {
  ...typeFields,
  regionId: id.describe('Region ID'),
  isSpot: z.boolean().default(false).describe('Whether the type is spot capacity'),
  gpuNum: typeFields.gpuNum.default(0),
  gpuName: typeFields.gpuName.default(''),
  cpuType: typeFields.cpuType.describe("CPU model; by default the engine's architecture").optional(),
  runtime: typeFields.runtime.default(''),
  placement: typeFields.placement.optional(),
});

export const versioned = { version, dryRun };
const typeId = { instanceTypeId: id.describe('Instance type ID') };
export const retired = {
  retired: z.boolean().default(true).describe('`false` offers it again'),
};

/** The control plane has the bounds, which depend on the time. */
const LAST_DATE = Date.UTC(9999, 11, 31);
export const scheduledFor = wholeNumber(0, LAST_DATE);
export const fromUnixMs = scheduledFor
  .describe('Time from which the prices count, Unix milliseconds; without it they count at once')
  .optional();

export const typeUpdateRequest = request('UpdateTypeRequest', {
  ...typeId,
  ...versioned,
  fromUnixMs,
  ...z.object(typeFields).partial().shape,
});
export const typeRetireRequest = request('RetireTypeRequest', { ...typeId, ...versioned, ...retired });

const managedType = answer('ManagedType', {
  instanceTypeId: text('Instance type ID'),
  version: rowVersion,
  retired: retiredFlag,
  regionId: text('Region ID'),
  name: text('Name'),
  isSpot: flag('Whether the type is spot capacity'),
  cpuCores: decimal('CPU cores'),
  memoryGB: decimal('Memory in GB'),
  gpuNum: integer('Number of GPUs'),
  gpuName: text('GPU model; empty for a CPU type'),
  rootDiskGB: decimal('Root disk in GB'),
  dataDiskGB: decimal('Data disk in GB'),
  cpuType: text('CPU model or architecture'),
  runtime: text("Container runtime; empty for the engine's default"),
  placement: typePlacement.nullable().describe('Nodes in a cluster; null: all of the region'),
  prices: prices.describe('Prices for new launches'),
});
export const typeListAnswer = answer('ListTypesAnswer', {
  types: z.array(managedType).describe('Types of the page, retired ones too'),
  pager: pagerAnswer.describe('Page and length of the list'),
});
const typeMember = managedType.describe('The type after the change');
export const typeCreateAnswer = answer('CreateTypeAnswer', { type: typeMember, warnings });
export const typeChangeAnswer = answer('ChangeTypeAnswer', {
  type: typeMember,
  affected: affected.describe('Who uses the row'),
  warnings,
});

const imageFields = {
  name: label(128).describe('Display name'),
  ref: plainText(500).describe('Reference in a registry, such as `docker.io/library/python:3.13`'),
  tags: z.array(label(64)).max(50).describe('Tags'),
};
const imageId = { imageId: id.describe('Image ID') };

export const managedImageCreateRequest = request('CreateCatalogImageRequest', {
  ...imageFields,
  tags: imageFields.tags.default([]),
});
export const managedImageUpdateRequest = request('UpdateCatalogImageRequest', {
  ...imageId,
  ...versioned,
  ...z.object(imageFields).partial().shape,
});
export const managedImageRefreshRequest = request('RefreshCatalogImageRequest', imageId);
export const managedImageRefreshAnswer = answer('RefreshCatalogImageAnswer', { imageId: text('Image ID') });
export const managedImageRetireRequest = request('RetireCatalogImageRequest', { ...imageId, ...versioned, ...retired });

const managedImage = answer('ManagedImage', {
  imageId: text('Image ID'),
  version: rowVersion,
  retired: retiredFlag,
  name: text('Display name'),
  ref: text('Reference in a registry; `berth.local/…` for an image that Berth builds'),
  architecture: text('CPU architecture'),
  tags: z.array(z.string()).describe('Tags'),
  type: text('Kind of image'),
  createdAtUnixMs: unixMs('Creation time'),
});
export const managedImageListAnswer = answer('ListCatalogImagesAnswer', {
  images: z.array(managedImage).describe('Images of the operator on the page, retired ones too'),
  pager: pagerAnswer.describe('Page and length of the list'),
});
const imageMember = managedImage.describe('The image after the change');
export const managedImageCreateAnswer = answer('CreateCatalogImageAnswer', { image: imageMember, warnings });
export const managedImageChangeAnswer = answer('ChangeCatalogImageAnswer', {
  image: imageMember,
  affected: affected.describe('Who uses the row'),
  warnings,
});

const clock = (latest: string, pattern: RegExp) =>
  z.string().regex(pattern, { error: `must be HH:MM up to ${latest}` });
const offPeakWindow = named(
  'OffPeakWindow',
  z.strictObject({
    days: z
      .array(z.enum(weekdays))
      .min(1)
      .max(weekdays.length)
      .refine((days) => new Set(days).size === days.length, { error: 'must name each day once' })
      .describe('Days on which the window starts'),
    start: clock('23:59', /^(?:[01]\d|2[0-3]):[0-5]\d$/).describe('Start by the clock of the time zone'),
    end: clock('24:00', /^(?:(?:[01]\d|2[0-3]):[0-5]\d|24:00)$/).describe(
      'End; an end before the start is on the next day',
    ),
  }),
);
const offPeakFields = {
  timeZone: z.string().min(1).max(100).describe('IANA time zone, such as `Europe/Berlin`, with its summer time'),
  windows: z.array(offPeakWindow).min(1).max(MAX_WINDOWS).describe('Weekly windows, without overlap'),
};
const { timeZone } = offPeakFields;
export const offPeak = named(
  'OffPeakRequest',
  z.strictObject({ ...offPeakFields, timeZone: timeZone.overwrite((zone) => canonicalTimeZone(zone) ?? zone) }),
  'Hours of the price `tidePerHour`',
);
/** Also of the public catalog. */
export const listedOffPeak = answer(
  'OffPeak',
  { ...offPeakFields, now: flag('Whether a window is open now') },
  'Hours of the price `tidePerHour`',
);

export const write = { idempotent: true } as const;
export const change = { ...write, versioned: true } as const;
export const lasting = { scope: 'instances' } as const;

export const catalogAdminRoutes = {
  listTypes: operatorReadRoute('/admin/type/list', pageRequest, typeListAnswer, {
    compressed: true,
    summary: 'List instance types with versions and prices, retired ones too (operators)',
  }),
  createType: adminRoute('/admin/type/create', typeCreateRequest, typeCreateAnswer, {
    ...write,
    summary: 'Offer an instance type (administrators)',
  }),
  updateType: adminRoute('/admin/type/update', typeUpdateRequest, typeChangeAnswer, {
    ...change,
    summary: 'Change name, size or prices of an instance type for new launches (administrators)',
  }),
  retireType: adminRoute('/admin/type/retire', typeRetireRequest, typeChangeAnswer, {
    ...change,
    summary: 'Refuse new launches of an instance type, or offer it again; instances stay (administrators)',
  }),
  listCatalogImages: operatorReadRoute('/admin/image/list', pageRequest, managedImageListAnswer, {
    compressed: true,
    summary: 'List images of the operator with versions and references, retired ones too (operators)',
  }),
  createCatalogImage: adminRoute('/admin/image/create', managedImageCreateRequest, managedImageCreateAnswer, {
    ...write,
    lasting,
    summary: 'Offer an image of a registry to all accounts; the registry is asked for it (administrators)',
  }),
  updateCatalogImage: adminRoute('/admin/image/update', managedImageUpdateRequest, managedImageChangeAnswer, {
    ...change,
    lasting,
    summary: 'Change name, reference or tags of an image for new launches (administrators)',
  }),
  refreshCatalogImage: adminRoute('/admin/image/refresh', managedImageRefreshRequest, managedImageRefreshAnswer, {
    idempotent: true,
    summary: 'Download what the registry has now for an image of the operator; instances stay (administrators)',
  }),
  retireCatalogImage: adminRoute('/admin/image/retire', managedImageRetireRequest, managedImageChangeAnswer, {
    ...change,
    summary: 'Refuse new launches of an image, or offer it again; instances stay (administrators)',
  }),
} as const;
