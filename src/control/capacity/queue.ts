/**
 * Room in a region: taken by whoever comes, waited for in line, given back. Who is placed when is decided by `domain/placement.ts`;
 * whoever decides holds the region's row meanwhile. Room that is given back makes those due whose turn it is, in the same
 * transaction: their passes look again and take it.
 */
import { capacityOf, type Capacity } from '../../domain/catalog.ts';
import type { Instance, InstanceSpec } from '../../domain/instance.ts';
import { diagnosisFields } from '../../domain/plan.ts';
import {
  fits,
  freeCapacity,
  RESERVATION_MS,
  walkQueue,
  nearestType,
  zeroCapacity,
  capacityShortfall,
} from '../../domain/placement.ts';
import { Refusal } from '../../domain/refusal.ts';
import {
  adjustCapacity,
  reserveIfQueueEmpty,
  countQueued,
  reserveNodePortCapacity,
  queueTailSinceMs,
  capacityUsedBy,
  lockRegion,
  queueLength,
  queueEntries,
  type QueuePosition,
  type QueueEntry,
} from '../../store/tables/capacity.ts';
import { regionWithUsage, type RegionWithUsage } from '../../store/tables/catalog.ts';
import { makeDue } from '../../store/tables/instances.ts';
import type { Db } from '../../store/store.ts';
import type { CatalogSnapshot } from '../base/catalog-cache.ts';

type Type = InstanceSpec['type'];

/**
 * How many of an account may stand in one region's line: each holds its node ports while it waits, and one account must not have them
 * all for the asking.
 */
const MOST_IN_LINE = 10;

/** What is open to a newcomer: less than is free while room is kept for others. */
interface CapacityBehindQueue {
  open: Capacity;
  /** How many those are. */
  kept: number;
}

/** Why there is none for a newcomer. The region is held. */
export interface CapacityShortage extends CapacityBehindQueue {
  counted: RegionWithUsage;
  /** How many stand in line, whether or not room is kept for them. */
  waiting: number;
}

/** Takes room for one that comes now. Null: it has it. */
export async function reserveCapacity(
  tx: Db,
  region: string,
  type: Type,
  { ports, nowMs }: { ports: number; nowMs: number },
): Promise<CapacityShortage | null> {
  if (await reserveIfQueueEmpty(tx, region, type, ports)) return null;
  const counted = await lockRegion(tx, region);
  if (!counted) throw new Error(`region ${region} is not in the store`);
  const behind = await availableBehindQueue(tx, counted, nowMs);
  if (fits(capacityOf(type), behind.open) && (await adjustCapacity(tx, region, type, 1, ports))) return null;
  return { ...behind, counted, waiting: await queueLength(tx, region) };
}

export async function availableBehindQueue(
  db: Db,
  counted: RegionWithUsage,
  nowMs: number,
): Promise<CapacityBehindQueue> {
  const turns = walkQueue(counted, nowMs);
  for await (const one of decideInOrder(db, counted.region.id, turns)) void one;
  return { open: turns.free(), kept: turns.reservedCount() };
}

/** The line from its head, as far as anybody may be placed, each with whether it is. */
async function* decideInOrder(
  db: Db,
  region: string,
  turns: ReturnType<typeof walkQueue>,
): AsyncGenerator<QueueEntry & { isOn: boolean }> {
  for await (const one of queueEntries(db, region)) {
    const held = turns.mayReserve(one) ? await capacityUsedBy(db, region, one.ownerId) : zeroCapacity;
    yield { ...one, isOn: turns.visit(one, held) };
    if (turns.isExhausted()) return;
  }
}

export interface EnqueueOptions {
  /** Node ports that are counted with its room. */
  ports: number;
  catalog: CatalogSnapshot;
  /** How long it would wait at most; null: not at all. */
  waitMs: number | null;
  nowMs: number;
}

/**
 * As it is in line, its node ports counted. Refuses one that does not want to wait, whose account has enough in line, or for which
 * there are no such ports.
 */
export async function enqueue(
  tx: Db,
  instance: Instance,
  noRoom: CapacityShortage,
  waits: EnqueueOptions,
): Promise<Instance> {
  const { ports, waitMs, nowMs } = waits;
  const { spec, ownerId } = instance;
  const { type } = spec;
  const { id, name } = noRoom.counted.region;
  if (waitMs === null) throw noCapacity(noRoom, type, waits);
  const own = await countQueued(tx, id, ownerId);
  if (own >= MOST_IN_LINE)
    throw new Refusal(
      'over_quota',
      `the account has ${own} in line for room in region ${name}, and may have ${MOST_IN_LINE}; stop or terminate one of them, or try again when one has its room`,
    );
  if (!(await reserveNodePortCapacity(tx, id, ports))) throw noCapacity(noRoom, type, waits);
  const observed = { ...instance.observed, ...queuedDiagnosis(type, noRoom.waiting) };
  // The date may jump back, and many come in one millisecond: who joins stands behind all the same.
  const lastMs = await queueTailSinceMs(tx, id);
  const waitsSinceMs = lastMs === null ? nowMs : Math.max(nowMs, lastMs + 1);
  return { ...instance, waitsSinceMs, waitsUntilMs: nowMs + waitMs, observed };
}

export const queuedDiagnosis = (type: Type, before: number): ReturnType<typeof diagnosisFields> =>
  diagnosisFields('NoCapacity', `waits for room for ${type.name}: ${before} before it`);

/** Says what is short, by how much, the nearest type that would fit now, and how to wait. */
function noCapacity(
  { counted, open, kept, waiting }: CapacityShortage,
  type: Type,
  { ports, catalog }: EnqueueOptions,
): Refusal {
  const { region, total, used } = counted;
  if (used.nodePorts + ports > total.nodePorts) {
    const free = Math.max(0, total.nodePorts - used.nodePorts);
    return new Refusal(
      'no_capacity',
      `region ${region.name} has ${free} node ports free and ${ports} are asked; ask fewer, or terminate an instance`,
    );
  }
  const short = capacityShortfall(capacityOf(type), freeCapacity(counted));
  const keptFor = `what is free is kept for ${kept} in line before it, for at most ${RESERVATION_MS / 60_000} minutes`;
  const why =
    short === ''
      ? keptFor
      : waiting === 0
        ? `short of ${short}`
        : `short of ${short}, and ${waiting} in line before it`;
  const others = [...catalog.types.values()].filter(
    (other) => other.regionId === region.id && other.isSpot === type.isSpot && other.id !== type.id,
  );
  const nearest = nearestType(type, others, open);
  const instead = nearest
    ? `${nearest.name} (${nearest.id}) would fit now`
    : 'no type fits now; stop or terminate an instance';
  const wait = fits(capacityOf(type), total)
    ? `, or send the header "X-Berth-Wait-For-Capacity: true" to wait in line`
    : '';
  return new Refusal('no_capacity', `no stock of ${type.name} in region ${region.name}: ${why}; ${instead}${wait}`);
}

/** Gives an instance's capacity back, and makes those due whose turn it is now. */
export async function releaseCapacity(tx: Db, region: string, type: Type, nowMs: number): Promise<void> {
  await adjustCapacity(tx, region, type, -1);
  await reevaluateQueue(tx, region, nowMs);
}

/** There may be more room than before, or less kept: those whose turn it is now, of all or of those behind one, are made due. */
export async function reevaluateQueue(
  tx: Db,
  region: string,
  nowMs: number,
  behind: QueuePosition | null = null,
): Promise<void> {
  if ((await queueTailSinceMs(tx, region)) === null) return;
  const counted = await regionWithUsage(tx, region);
  if (!counted) return;
  for await (const one of decideInOrder(tx, region, walkQueue(counted, nowMs)))
    if (one.isOn && (behind === null || isBehind(one, behind))) await makeDue(tx, [one.id], nowMs);
}

/** How many of those behind one that left are told their new place at once; the others learn it when they look again. */
const LEFT_AT_ONCE = 16;

/**
 * One has left the line. Its own row is written in the same transaction, and of the line only what is behind it is touched: so no two
 * that leave wait for each other. It may do so without the region: what it reads of its counts may be about to change, so whoever
 * changes them calls the line too.
 */
export async function advanceQueue(tx: Db, region: string, nowMs: number, left: QueuePosition): Promise<void> {
  let handled = 0;
  for await (const { id } of queueEntries(tx, region, left)) {
    await makeDue(tx, [id], nowMs);
    if (++handled === LEFT_AT_ONCE) break;
  }
  if (handled === LEFT_AT_ONCE) await reevaluateQueue(tx, region, nowMs, left);
}

const isBehind = (one: QueuePosition, other: QueuePosition): boolean =>
  one.waitsSinceMs > other.waitsSinceMs || (one.waitsSinceMs === other.waitsSinceMs && one.id > other.id);

/** Takes its room if its turn has come. Null: it has it; else how many stand before it. The region is held. */
export async function reserveInTurn(
  tx: Db,
  { regionId: region, type }: InstanceSpec,
  mine: QueuePosition,
  nowMs: number,
): Promise<number | null> {
  const counted = await lockRegion(tx, region);
  if (!counted) throw new Error(`region ${region} is not in the store`);
  for await (const one of decideInOrder(tx, region, walkQueue(counted, nowMs))) {
    if (one.id !== mine.id) continue;
    if (one.isOn && (await adjustCapacity(tx, region, type, 1))) return null;
    break;
  }
  return queueLength(tx, region, mine);
}
