/**
 * Room in a region: taken by whoever comes, waited for in line, given back. Who is placed when is decided by `domain/placement.ts`;
 * whoever decides holds the region's row meanwhile. Room that is given back makes those due whose turn it is, in the same
 * transaction: their passes look again and take it.
 */
import { capacityOf, type Capacity } from '../domain/catalog.ts';
import type { Instance, InstanceSpec } from '../domain/instance.ts';
import { diagnosed } from '../domain/plan.ts';
import { fits, freeOf, makeTurns, nearestType, whatIsShort } from '../domain/placement.ts';
import { Refusal } from '../domain/refusal.ts';
import {
  countCapacity,
  countIfNobodyWaits,
  countNodePorts,
  endOfLine,
  holdRegion,
  lengthOfLine,
  lineOf,
  type Place,
} from '../store/capacity.ts';
import { countedRegion, type CountedRegion } from '../store/catalog.ts';
import { makeDue } from '../store/instances.ts';
import type { Db } from '../store/store.ts';
import type { Offers } from './offers.ts';

type Type = InstanceSpec['type'];

/** Why there is none for a newcomer. The region is held. */
export interface NoRoom {
  counted: CountedRegion;
  /** What is free and not kept for those in line. */
  open: Capacity;
  /** How many those are. */
  waiting: number;
}

/** Takes room for one that comes now. Null: it has it. */
export async function takeRoom(tx: Db, region: string, type: Type, ports: number): Promise<NoRoom | null> {
  if (await countIfNobodyWaits(tx, region, type, ports)) return null;
  const counted = await holdRegion(tx, region);
  if (!counted) throw new Error(`region ${region} is not in the store`);
  const open = await openBehindLine(tx, counted);
  if (fits(capacityOf(type), open) && (await countCapacity(tx, region, type, 1, ports))) return null;
  return { counted, open, waiting: await lengthOfLine(tx, region) };
}

/** What is open to a newcomer: less than is free while others wait. */
export async function openBehindLine(db: Db, counted: CountedRegion): Promise<Capacity> {
  const turns = makeTurns(counted);
  for await (const one of lineOf(db, counted.region.id)) {
    turns.pass(one);
    if (turns.isOver()) break;
  }
  return turns.open();
}

export interface Waits {
  /** Node ports that are counted with its room. */
  ports: number;
  offers: Offers;
  /** How long it would wait at most; null: not at all. */
  waitMs: number | null;
  nowMs: number;
}

/** As it is in line, its node ports counted. Refuses one that does not want to wait, or for which there are no such ports. */
export async function joinLine(tx: Db, instance: Instance, noRoom: NoRoom, waits: Waits): Promise<Instance> {
  const { ports, waitMs, nowMs } = waits;
  const { type } = instance.spec;
  if (waitMs === null || !(await countNodePorts(tx, noRoom.counted.region.id, ports)))
    throw noCapacity(noRoom, type, waits);
  const observed = { ...instance.observed, ...waitsFor(type, noRoom.waiting) };
  // The date may jump back, and many come in one millisecond: who joins stands behind all the same.
  const lastMs = await endOfLine(tx, noRoom.counted.region.id);
  const waitsSinceMs = lastMs === null ? nowMs : Math.max(nowMs, lastMs + 1);
  return { ...instance, waitsSinceMs, waitsUntilMs: nowMs + waitMs, observed };
}

export const waitsFor = (type: Type, before: number): ReturnType<typeof diagnosed> =>
  diagnosed('NoCapacity', `waits for room for ${type.name}: ${before} before it`);

/** Says what is short, by how much, the nearest type that would fit now, and how to wait. */
function noCapacity({ counted, open, waiting }: NoRoom, type: Type, { ports, offers }: Waits): Refusal {
  const { region, total, used } = counted;
  if (used.nodePorts + ports > total.nodePorts) {
    const free = Math.max(0, total.nodePorts - used.nodePorts);
    return new Refusal(
      'no_capacity',
      `region ${region.name} has ${free} node ports free and ${ports} are asked; ask fewer, or terminate an instance`,
    );
  }
  const short = whatIsShort(capacityOf(type), freeOf(counted));
  const kept = `what is free is kept for ${waiting} in line before it`;
  const why =
    short === '' ? kept : waiting === 0 ? `short of ${short}` : `short of ${short}, and ${waiting} in line before it`;
  const others = [...offers.types.values()].filter(
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
export async function giveBack(tx: Db, region: string, type: Type, nowMs: number): Promise<void> {
  await countCapacity(tx, region, type, -1);
  await callLine(tx, region, nowMs);
}

/** There may be more room than before, or less kept: those whose turn it is now, of all or of those behind one, are made due. */
export async function callLine(tx: Db, region: string, nowMs: number, behind: Place | null = null): Promise<void> {
  let turns: ReturnType<typeof makeTurns> | null = null;
  for await (const one of lineOf(tx, region)) {
    if (!turns) {
      const counted = await countedRegion(tx, region);
      if (!counted) return;
      turns = makeTurns(counted);
    }
    if (turns.pass(one) && (behind === null || isBehind(one, behind))) await makeDue(tx, [one.id], nowMs);
    if (turns.isOver()) return;
  }
}

/** How many of those behind one that left are told their new place at once; the others learn it when they look again. */
const TOLD_AT_ONCE = 16;

/**
 * One has left the line. Its own row is written in the same transaction, and of the line only what is behind it is touched: so no two
 * that leave wait for each other. It may do so without the region: what it reads of its counts may be about to change, so whoever
 * changes them calls the line too.
 */
export async function moveUp(tx: Db, region: string, nowMs: number, left: Place): Promise<void> {
  let told = 0;
  for await (const { id } of lineOf(tx, region, left)) {
    await makeDue(tx, [id], nowMs);
    if (++told === TOLD_AT_ONCE) break;
  }
  if (told === TOLD_AT_ONCE) await callLine(tx, region, nowMs, left);
}

const isBehind = (one: Place, other: Place): boolean =>
  one.waitsSinceMs > other.waitsSinceMs || (one.waitsSinceMs === other.waitsSinceMs && one.id > other.id);

/** Takes its room if its turn has come. Null: it has it; else how many stand before it. The region is held. */
export async function takeTurn(tx: Db, region: string, type: Type, mine: Place): Promise<number | null> {
  const counted = await holdRegion(tx, region);
  if (!counted) throw new Error(`region ${region} is not in the store`);
  const turns = makeTurns(counted);
  for await (const one of lineOf(tx, region)) {
    const isMine = one.id === mine.id;
    if (turns.pass(one) && isMine && (await countCapacity(tx, region, type, 1))) return null;
    if (isMine || turns.isOver()) break;
  }
  return lengthOfLine(tx, region, mine);
}
