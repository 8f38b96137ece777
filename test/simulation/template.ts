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
import { saveRegion, saveSetting } from '../../src/store/tables/catalog.ts';
import { insertManagedImage, insertManagedType } from '../../src/store/tables/catalog-rows.ts';
import { migrations } from '../../src/store/open.ts';
import { openSqlite } from '../../src/store/db/sqlite.ts';
import { insertAccount } from '../../src/store/tables/accounts.ts';
import { plainEntry, writeEntries } from '../../src/store/tables/ledger.ts';
import { aRegion } from '../fixtures/region.ts';
import { type InstanceType, fromDollars } from '../../src/domain/catalog.ts';

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

export const callers: Caller[] = ['ann', 'bob', 'eve'].map((username, at) => ({
  accountId: uuid(5, at),
  username,
  email: '',
  roles: ['user'],
  sessionId: null,
  scopes: null,
}));

const FIRST_MICROS = Number(fromDollars(1_000));

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
    for (const type of types) await insertManagedType(tx, { ...type, ...unchanged });
    for (const { accountId, username } of callers) {
      await insertAccount(tx, {
        id: accountId,
        username,
        email: '',
        passwordHash: '',
        roles: '["user"]',
        createdAtMs: 0,
        disabled: 0,
        balanceMicros: FIRST_MICROS,
      });
      const first = { kind: 'deposit', fromLedger: 'deposits', toLedger: 'cash', amountMicros: FIRST_MICROS };
      await writeEntries(tx, [{ ...plainEntry, accountId, atMs: 0, ...first }]);
    }
  });
  await store.stop();
  const bytes = readFileSync(file);
  rmSync(own, { recursive: true });
  return bytes;
}
