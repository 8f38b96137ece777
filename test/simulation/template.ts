/**
 * Initial database of every run: real migrations and the data of a new installation, with constant
 * ids.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Caller } from '../../src/control/index.ts';
import { imageId, instanceTypeId, regionId } from '../../src/domain/kernel/ids.ts';
import { pricesOf } from '../../src/main/first-run.ts';
import { savePool } from '../../src/store/tables/pools.ts';
import { saveFirstOffPeak, saveRegion, saveSetting } from '../../src/store/tables/catalog.ts';
import {
  insertManagedImage,
  insertManagedRegion,
  insertManagedType,
  type ManagedRegion,
} from '../../src/store/tables/catalog-rows.ts';
import { migrations } from '../../src/store/open.ts';
import { openSqlite } from '../../src/store/db/sqlite.ts';
import { insertAccount } from '../../src/store/tables/accounts.ts';
import { plainEntry, writeEntries } from '../../src/store/tables/ledger.ts';
import { aRegion } from '../fixtures/region.ts';
import {
  countGpus,
  defaultStoragePrices,
  fromDollars,
  type InstanceType,
  type Region,
} from '../../src/domain/regions/catalog.ts';
import { weekdays, type OffPeak } from '../../src/domain/regions/off-peak.ts';
import type { RegionSettings } from '../../src/domain/regions/region-settings.ts';
import type { Db } from '../../src/store/store.ts';

const uuid = (kind: number, number: number): string =>
  `${String(kind).padStart(8, '0')}-0000-4000-8000-${String(number).padStart(12, '0')}`;

export const ids = { installation: uuid(1, 1) };
/** Few ports, so that they run out. */
export const nodePortRange = { first: 30_000, last: 30_015 };
/** Small enough to fill up. */
export const poolGB = 400;
export const capacity = { cpuMilli: 6_000, memoryMiB: 16_384, gpus: { 'Simulated GPU': 3 } };

/** Worlds have the first or both. Their node ports have the same numbers. */
export const regions: readonly [Region, Region] = [
  aRegion({ id: regionId(uuid(2, 1)) }),
  aRegion({ id: regionId(uuid(2, 2)), name: 'second', value: 'second', sshAddress: '192.0.2.2' }),
];
export const settings: RegionSettings = {
  simulated: {
    cpuCores: capacity.cpuMilli / 1_000,
    memoryGB: capacity.memoryMiB / 1_024,
    gpus: countGpus(capacity.gpus),
  },
  pools: [{ name: 'default', sizeGB: poolGB }],
  nodePorts: nodePortRange,
};

export const images = ['berth.local/test:1', 'missing.invalid/image:1', 'unreachable.invalid/image:1'].map(
  (ref, at) => ({ id: imageId(uuid(3, at)), ref }),
);

const sizes = [
  { name: 'small', cpuCores: 1, memoryGB: 2, gpuCount: 0 },
  { name: 'large', cpuCores: 3, memoryGB: 6, gpuCount: 0 },
  { name: 'gpu', cpuCores: 1, memoryGB: 2, gpuCount: 1 },
  { name: 'gpus', cpuCores: 2, memoryGB: 4, gpuCount: 2 },
];
const typesIn = (region: Region, ofSpot: boolean): InstanceType[] =>
  sizes.map((size, at) => ({
    ...size,
    name: ofSpot ? `${size.name} spot` : size.name,
    id: instanceTypeId(uuid(ofSpot ? 6 : 4, at + sizes.length * regions.indexOf(region))),
    regionId: region.id,
    isSpot: ofSpot,
    cpuType: 'amd64',
    gpuName: size.gpuCount > 0 ? 'Simulated GPU' : '',
    rootDiskGB: 20,
    dataDiskGB: 20,
    pricesMicros: pricesOf(ofSpot ? 0.03 : 0.1),
  }));
const allTypes = regions.map((region) => [typesIn(region, false), typesIn(region, true)] as const);
export const typesOf = (region: Region, ofSpot = false): readonly InstanceType[] =>
  allTypes[regions.indexOf(region)]?.[ofSpot ? 1 : 0] ?? [];

/** Seeds begin at 9:00 in Berlin. */
const offPeak: OffPeak = {
  timeZone: 'Europe/Berlin',
  windows: [
    { days: [...weekdays], start: '08:30', end: '09:04' },
    { days: [...weekdays], start: '09:08', end: '09:15' },
  ],
};

export const callers: Caller[] = ['ann', 'bob', 'eve'].map((username, at) => ({
  accountId: uuid(5, at),
  username,
  email: '',
  roles: ['user'],
  sessionId: null,
  scopes: null,
}));

export const administrator: Caller = {
  accountId: uuid(5, callers.length),
  username: 'root',
  email: '',
  roles: ['user', 'admin'],
  sessionId: null,
  scopes: null,
};

/** Two deposits: an administrator may take back the larger one. */
const FIRST_MICROS = [fromDollars(999.9), fromDollars(0.1)].map(Number);

const unchanged = { version: 1, isRetired: false };
const [first, second] = regions;
const total = { ...capacity, nodePorts: nodePortRange.last - nodePortRange.first + 1 };

/** Bytes of the database file with the first region, and with both. */
export type Templates = readonly [Uint8Array, Uint8Array];

export async function makeTemplates(folder: string): Promise<Templates> {
  const own = mkdtempSync(join(folder, 'template-'));
  const file = join(own, 'berth.db');
  const silent = { info: () => {}, warn: () => {}, error: () => {} };
  const store = await openSqlite({ file, migrations, log: silent });
  await store.write(async (tx) => {
    await saveSetting(tx, 'installation', ids.installation);
    await saveRegion(tx, first, total);
    await offer(tx, first);
    for (const [at, { id, ref }] of images.entries()) {
      const image = { id, ref, name: ref, tags: [], architecture: 'amd64', isPublic: true, type: 'notebook' };
      await insertManagedImage(tx, { ...image, ...unchanged, createdAtMs: at });
    }
    for (const { accountId, username, roles } of [...callers, administrator]) {
      const deposits = accountId === administrator.accountId ? [] : FIRST_MICROS;
      await insertAccount(tx, {
        id: accountId,
        username,
        email: '',
        passwordHash: '',
        roles: JSON.stringify(roles),
        createdAtMs: 0,
        disabled: 0,
        balanceMicros: deposits.reduce((sum, amount) => sum + amount, 0),
      });
      const first = { kind: 'deposit', fromLedger: 'deposits', toLedger: 'cash' };
      const entries = deposits.map((amountMicros) => ({ ...plainEntry, accountId, atMs: 0, ...first, amountMicros }));
      await writeEntries(tx, entries);
    }
  });
  await store.stop();
  const one = readFileSync(file);
  const again = await openSqlite({ file, migrations, log: silent });
  await again.write(async (tx) => {
    await insertManagedRegion(tx, asAdded(second), total);
    await offer(tx, second);
  });
  await again.stop();
  const both = readFileSync(file);
  rmSync(own, { recursive: true });
  return [one, both];
}

async function offer(tx: Db, region: Region): Promise<void> {
  await savePool(tx, { regionId: region.id, name: 'default' }, poolGB);
  await saveFirstOffPeak(tx, region.id, offPeak);
  for (const type of [...typesOf(region), ...typesOf(region, true)])
    await insertManagedType(tx, { ...type, ...unchanged });
}

/** As an administrator adds it. */
const asAdded = (facts: Region): ManagedRegion => ({
  ...unchanged,
  facts,
  settingsDomain: facts.domain,
  ownDomain: null,
  offPeak,
  storagePrices: defaultStoragePrices,
  hasOwnStoragePrices: false,
  settings,
  credentials: null,
});
