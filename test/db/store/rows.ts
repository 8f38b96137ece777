/** Rows with plausible values in every column, any of them given. */
import type { Insertable } from 'kysely';
import { noUsage } from '../../../src/domain/storage/disk.ts';
import { beginOperation } from '../../../src/domain/compute/operation.ts';
import { noStopPolicy } from '../../../src/domain/compute/stop-policy.ts';
import type { Schema } from '../../../src/store/db/schema.ts';
import type { Db } from '../../../src/store/store.ts';

export const accountRow = (
  given: Partial<Insertable<Schema['account']>> & { id: string },
): Insertable<Schema['account']> => ({
  username: given.id,
  email: '',
  passwordHash: '',
  roles: '[]',
  createdAtMs: 1_000,
  disabled: 0,
  ...given,
});

export const regionRow = (
  given: Partial<Insertable<Schema['region']>> & { id: string },
): Insertable<Schema['region']> => ({
  name: given.id,
  value: given.id,
  location: '',
  domain: 'localhost',
  sshAddress: '127.0.0.1',
  engine: 'simulated',
  cpuMilliTotal: 0,
  memoryMiBTotal: 0,
  nodePortsTotal: 0,
  ...given,
});

export const instanceRow = (
  given: Partial<Insertable<Schema['instance']>> & { id: string; ownerId: string; regionId: string },
): Insertable<Schema['instance']> => ({
  ownerName: given.ownerId,
  createdAtMs: 1_000,
  spec: '{}',
  priceMicros: 0,
  nodePorts: '[]',
  desired: 'running',
  generation: 1,
  mustHalt: 0,
  everEnsured: 0,
  filesStale: 0,
  attempts: 0,
  requestedAtMs: 1_000,
  initExit: null,
  waitsSinceMs: null,
  waitsUntilMs: null,
  idleAfterMs: null,
  observed: '{}',
  stopPolicy: JSON.stringify(noStopPolicy),
  portAccess: '{}',
  archive: null,
  revision: 0,
  pending: null,
  oldContainer: null,
  unfinished: '[]',
  diskUsage: JSON.stringify(noUsage),
  operation: JSON.stringify(beginOperation('launch', 'user', 1_000)),
  status: 'Starting',
  holdsCapacity: 0,
  notebookToken: '',
  publicText: '{}',
  listed: 1,
  releasedAtMs: null,
  dueAtMs: null,
  leaseOwner: null,
  leaseToken: null,
  leaseUntilMs: null,
  ...given,
});

export const volumeRow = (
  given: Partial<Insertable<Schema['volume']>> & { id: string; ownerId: string; regionId: string },
): Insertable<Schema['volume']> => ({
  ownerName: given.ownerId,
  createdAtMs: 1_000,
  name: given.id,
  liveName: `${given.ownerId}/${given.id}`,
  type: 'filesystem',
  sizeGB: 1,
  usageBytes: 0,
  source: null,
  status: 'Pending',
  operation: JSON.stringify(beginOperation('createVolume', 'user', 1_000)),
  generation: 1,
  publicText: '{}',
  listed: 1,
  dueAtMs: null,
  leaseOwner: null,
  leaseToken: null,
  leaseUntilMs: null,
  ...given,
});

/** Accounts and one region, parents of instances and volumes. */
export async function insertOwners(tx: Db, region: string, ...accounts: string[]): Promise<void> {
  await tx
    .insertInto('region')
    .values(regionRow({ id: region }))
    .execute();
  await insertAccounts(tx, ...accounts);
}

export async function insertAccounts(tx: Db, ...accounts: string[]): Promise<void> {
  await tx
    .insertInto('account')
    .values(accounts.map((id) => accountRow({ id })))
    .execute();
}
