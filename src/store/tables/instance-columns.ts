/** Columns of an instance. A new one needs a member of `InstanceTable`, a line and a migration. */
import type { Selectable } from 'kysely';
import { instanceId, userId } from '../../domain/kernel/ids.ts';
import type { Region } from '../../domain/regions/catalog.ts';
import { desiredStates } from '../../domain/compute/instance-states.ts';
import { rootDiskStates, type Instance } from '../../domain/compute/instance.ts';
import { searchForm } from '../../domain/kernel/resource-labels.ts';
import { publicInstance } from '../../domain/compute/public-instance.ts';
import {
  closedList,
  complete,
  flag,
  id,
  json,
  keysOf,
  mapKeys,
  nullableJson,
  plain,
  type ColumnCodec,
} from '../db/columns.ts';
import type { InstanceTable } from '../db/schema.ts';
import * as schemas from './json-schemas.ts';

export type InstanceRow = Selectable<InstanceTable>;

/** Writes that set a column: the insert; also a new desired state; also a reconcile's result. */
type WrittenBy = 'insert' | 'request' | 'reconcile';

type MemberColumn<Value, Stored> = ColumnCodec<Value, Stored> & { writtenBy: WrittenBy };

const by = <Value, Stored>(writtenBy: WrittenBy, codec: ColumnCodec<Value, Stored>): MemberColumn<Value, Stored> => ({
  ...codec,
  writtenBy,
});

const memberColumns: { readonly [Member in keyof Instance]: MemberColumn<Instance[Member], InstanceRow[Member]> } = {
  id: by('insert', id(instanceId)),
  ownerId: by('insert', id(userId)),
  ownerName: by('insert', plain()),
  createdAtMs: by('insert', plain()),
  spec: by('request', json(schemas.instanceSpec)),
  priceMicros: by('request', { encode: (micros) => Number(micros), decode: (stored) => BigInt(stored) }),
  nodePorts: by('reconcile', json(schemas.nodePorts)),
  desired: by('reconcile', closedList(desiredStates)),
  generation: by('reconcile', plain()),
  mustHalt: by('reconcile', flag()),
  everEnsured: by('reconcile', flag()),
  // Set and cleared by `markFilesStale` and `setFilesStale`, not by reconciles.
  filesStale: by('insert', flag()),
  attempts: by('reconcile', plain()),
  requestedAtMs: by('reconcile', plain()),
  initExit: by('reconcile', plain()),
  waitsSinceMs: by('reconcile', plain()),
  waitsUntilMs: by('reconcile', plain()),
  notBeforeMs: by('reconcile', plain()),
  // Written by tasks, with a new revision.
  windowEndsAtMs: by('request', plain()),
  reclaimAtMs: by('request', plain()),
  stopPolicy: by('request', json(schemas.stopPolicy)),
  archive: by('reconcile', nullableJson(schemas.archive)),
  rootDisk: by('reconcile', closedList(rootDiskStates)),
  // Incremented by changes outside of reconciles: `writeReconciledInstance` guards it.
  revision: by('request', plain()),
  pending: by('request', nullableJson(schemas.pending)),
  oldContainer: by('reconcile', nullableJson(schemas.containerShape)),
  unfinished: by('reconcile', json(schemas.texts)),
  diskUsage: by('request', json(schemas.diskUsage)),
  operation: by('reconcile', json(schemas.operation)),
  observed: by('reconcile', json(schemas.observed)),
};

const derivedKeys = ['status', 'idleAfterMs', 'spotRegionId', 'searchName', 'publicText'] as const;
type DerivedValues = Pick<InstanceRow, (typeof derivedKeys)[number]>;

/** Columns computed from an instance, for queries and lists; every write sets them. */
const derivedValues = (instance: Instance, region: Region): DerivedValues => ({
  status: instance.observed.status,
  idleAfterMs:
    instance.desired === 'running' && instance.observed.status === 'Running'
      ? (instance.stopPolicy.idle?.afterMs ?? null)
      : null,
  spotRegionId: instance.desired !== 'released' && instance.spec.isSpot ? region.id : null,
  searchName: searchForm(instance.spec.name),
  publicText: JSON.stringify(publicInstance(instance, region)),
});

const specKeys = ['typeId', 'imageId'] as const;
type SpecValues = Pick<InstanceRow, (typeof specKeys)[number]>;

type Members = Pick<InstanceRow, keyof Instance>;
export type InstanceColumns = Members & DerivedValues & SpecValues;

const memberKeys = keysOf(memberColumns);
const writtenBy = (...writers: WrittenBy[]) =>
  memberKeys.filter((key) => writers.includes(memberColumns[key].writtenBy));
const requestKeys = writtenBy('request', 'reconcile');
const reconcileKeys = writtenBy('reconcile');

export const instanceColumnNames: readonly (keyof InstanceColumns)[] = [...memberKeys, ...specKeys, ...derivedKeys];
export const reconciledColumnNames: readonly (keyof InstanceColumns)[] = [...reconcileKeys, ...derivedKeys];

const encode = (
  instance: Instance,
  region: Region,
  keys: readonly (keyof Members)[],
): Partial<Members & SpecValues> & DerivedValues => ({
  ...mapKeys<Members>(keys, (key) => memberColumns[key].encode(instance[key])),
  ...(keys.includes('spec') ? { typeId: instance.spec.type.id, imageId: instance.spec.image.id } : {}),
  ...derivedValues(instance, region),
});

export const insertColumns = (instance: Instance, region: Region): InstanceColumns =>
  complete<InstanceColumns>(encode(instance, region, memberKeys), instanceColumnNames);

export const requestColumns = (instance: Instance, region: Region) => encode(instance, region, requestKeys);

export const reconcileColumns = (instance: Instance, region: Region) => encode(instance, region, reconcileKeys);

export const revisionColumns = (instance: Instance, region: Region) =>
  encode(instance, region, ['spec', 'pending', 'stopPolicy', 'revision']);

export const specColumns = (instance: Instance, region: Region) => encode(instance, region, ['spec']);

export const encodeColumn = <Member extends keyof Instance>(
  member: Member,
  value: Instance[Member],
): InstanceRow[Member] => memberColumns[member].encode(value);

export const decodeColumn = <Member extends keyof Instance>(
  member: Member,
  stored: InstanceRow[Member],
  rowId: string,
): Instance[Member] => memberColumns[member].decode(stored, { table: 'instance', id: rowId, column: member });

export const instanceFromRow = (row: InstanceRow): Instance =>
  complete(
    mapKeys<Instance>(memberKeys, (key) => decodeColumn(key, row[key], row.id)),
    memberKeys,
  );
