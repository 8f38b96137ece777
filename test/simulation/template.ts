/**
 * Initial database of every run: real migrations and the data of a new installation, with constant
 * ids.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Caller } from '../../src/control/index.ts';
import { imageId, instanceTypeId, regionId } from '../../src/domain/ids.ts';
import { pricesOf } from '../../src/main/first-run.ts';
import { savePool } from '../../src/store/tables/pools.ts';
import { saveFirstOffPeak, saveRegion, saveSetting } from '../../src/store/tables/catalog.ts';
import { insertManagedImage, insertManagedType } from '../../src/store/tables/catalog-rows.ts';
import { migrations } from '../../src/store/open.ts';
import { openSqlite } from '../../src/store/db/sqlite.ts';
import { insertAccount } from '../../src/store/tables/accounts.ts';
import { plainEntry, writeEntries } from '../../src/store/tables/ledger.ts';
import { aRegion } from '../fixtures/region.ts';
import { type InstanceType, fromDollars } from '../../src/domain/catalog.ts';
import { weekdays, type OffPeak } from '../../src/domain/off-peak.ts';

const uuid = (kind: number, number: number): string =>
  `${String(kind).padStart(8, '0')}-0000-4000-8000-${String(number).padStart(12, '0')}`;

export const ids = { installation: uuid(1, 1), region: uuid(2, 1) };
/** Few ports, so that they run out. */
export const nodePortRange = { first: 30_000, last: 30_015 };
/** Small enough to fill up. */
export const poolGB = 400;
export const capacity = { cpuMilli: 6_000, memoryMiB: 16_384, gpus: 3 };

export const region = aRegion({ id: regionId(ids.region) });

export const images = ['berth.local/test:1', 'missing.invalid/image:1', 'unreachable.invalid/image:1'].map(
  (ref, at) => ({ id: imageId(uuid(3, at)), ref }),
);

const sizes = [
  { name: 'small', cpuCores: 1, memoryGB: 2, gpuCount: 0 },
  { name: 'large', cpuCores: 3, memoryGB: 6, gpuCount: 0 },
  { name: 'gpu', cpuCores: 1, memoryGB: 2, gpuCount: 1 },
  { name: 'gpus', cpuCores: 2, memoryGB: 4, gpuCount: 2 },
];
export const types: InstanceType[] = sizes.map((size, at) => ({
  ...size,
  id: instanceTypeId(uuid(4, at)),
  regionId: region.id,
  isSpot: false,
  cpuType: 'amd64',
  gpuName: size.gpuCount > 0 ? 'Simulated GPU' : '',
  rootDiskGB: 20,
  dataDiskGB: 20,
  pricesMicros: pricesOf(0.1),
}));
export const spotTypes: InstanceType[] = types.map((type, at) => ({
  ...type,
  id: instanceTypeId(uuid(6, at)),
  name: `${type.name} spot`,
  isSpot: true,
  pricesMicros: pricesOf(0.03),
}));

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

/** Bytes of the database file. */
export async function makeTemplate(folder: string): Promise<Uint8Array> {
  const own = mkdtempSync(join(folder, 'template-'));
  const file = join(own, 'berth.db');
  const silent = { info: () => {}, warn: () => {}, error: () => {} };
  const store = await openSqlite({ file, migrations, log: silent });
  await store.write(async (tx) => {
    await saveSetting(tx, 'installation', ids.installation);
    const nodePorts = nodePortRange.last - nodePortRange.first + 1;
    await saveRegion(tx, region, { ...capacity, nodePorts });
    await savePool(tx, { regionId: region.id, name: 'default' }, poolGB);
    for (const [at, { id, ref }] of images.entries()) {
      const image = { id, ref, name: ref, tags: [], architecture: 'amd64', isPublic: true, type: 'notebook' };
      await insertManagedImage(tx, { ...image, ...unchanged, createdAtMs: at });
    }
    await saveFirstOffPeak(tx, region.id, offPeak);
    for (const type of [...types, ...spotTypes]) await insertManagedType(tx, { ...type, ...unchanged });
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
  const bytes = readFileSync(file);
  rmSync(own, { recursive: true });
  return bytes;
}
