/**
 * Reserves and releases a region's capacity, and queues launches without it
 * (`domain/regions/placement.ts` decides the order, under the region's lock). Released capacity
 * makes the next entries due in the same transaction; their reconcilers reserve it.
 */
import { capacityOfSpec, countGpus, type Capacity, type Region, type Supply } from '../../../domain/regions/catalog.ts';
import type { Drain } from '../../../domain/regions/drain.ts';
import type { Instance, InstanceSpec } from '../../../domain/compute/instance.ts';
import { beginStage } from '../../../domain/compute/operation.ts';
import { NEVER_MS, offPeakWait, type OffPeakWait } from '../../../domain/regions/off-peak.ts';
import { diagnosisFields } from '../../../domain/compute/plan.ts';
import {
  addCapacity,
  fits,
  addToRegion,
  negative,
  freeCapacity,
  RESERVATION_MS,
  walkQueue,
  nearestType,
  isNothing,
  zeroCapacity,
  capacityShortfall,
  type RegionCapacity,
} from '../../../domain/regions/placement.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
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
  wakeEntry,
} from '../../../store/tables/capacity.ts';
import { regionWithUsage, type RegionWithUsage } from '../../../store/tables/catalog.ts';
import type { Db } from '../../../store/store.ts';
import { planReclaims } from './plan-reclaims.ts';
import { requireQuota } from '../../access/ports.ts';
import type { CatalogSnapshot } from '../../kernel/ports.ts';

type Type = InstanceSpec['type'];

/** Capacity for a newcomer: free capacity less reservations of queued launches. */
interface CapacityBehindQueue {
  available: Supply;
  reservedCount: number;
}

/** Shortage for a newcomer. The region is locked. */
interface CapacityShortage extends CapacityBehindQueue {
  counted: RegionWithUsage;
  waiting: number;
}

export interface EnqueueOptions {
  ports: number;
  catalog: CatalogSnapshot;
  /** Longest wait, or `Infinity`; null: refuse at once, unless spot instances are reclaimed. */
  waitMs: number | null;
  spotGraceMs: number;
  nowMs: number;
}

/**
 * Reserves capacity for a newcomer, or queues it; before an off-peak window it does neither, but
 * reserves node ports. Throws a `Refusal` if that is impossible.
 */
export async function reserveOrEnqueue(tx: Db, instance: Instance, options: EnqueueOptions): Promise<Instance> {
  const { spec } = instance;
  const wait = offPeakWait(spec, options.catalog.regions.get(spec.regionId)?.offPeak ?? null, options.nowMs);
  if (wait !== null) return waitForWindow(tx, instance, wait, options);
  const shortage = await reserveCapacity(tx, spec.regionId, capacityOfSpec(spec), options);
  if (shortage !== null) return enqueue(tx, instance, shortage, options);
  return { ...instance, operation: beginStage(instance.operation, 'Placed', options.nowMs) };
}

async function waitForWindow(
  tx: Db,
  instance: Instance,
  { notBeforeMs, text }: OffPeakWait,
  options: EnqueueOptions,
): Promise<Instance> {
  const { regionId, type } = instance.spec;
  const counted = await lockRegion(tx, regionId);
  if (!counted) throw new Error(`region ${regionId} is not in the store`);
  if (notBeforeMs === NEVER_MS)
    throw new Refusal(
      'not_now',
      `the charge mode is tidePerHour, and region ${counted.region.name} has no off-peak windows; ask an administrator to set "offPeak" of the region, or launch an instance of another charge mode`,
    );
  if (!(await reserveNodePortCapacity(tx, regionId, options.ports))) {
    const shortage = { counted, available: zeroCapacity, reservedCount: 0, waiting: 0 };
    throw noCapacity(shortage, { type, need: zeroCapacity, ...options });
  }
  return { ...instance, notBeforeMs, observed: { ...instance.observed, ...diagnosisFields('OffPeakWait', text) } };
}

/** Null: reserved. */
async function reserveCapacity(
  tx: Db,
  region: string,
  need: Capacity,
  { ports, nowMs }: Pick<EnqueueOptions, 'ports' | 'nowMs'>,
): Promise<CapacityShortage | null> {
  if (await reserveIfQueueEmpty(tx, region, need, ports)) return null;
  const counted = await lockRegion(tx, region);
  if (!counted) throw new Error(`region ${region} is not in the store`);
  const behind = await availableBehindQueue(tx, counted, nowMs);
  if (fits(need, behind.available) && (await adjustCapacity(tx, region, need, 1, ports))) return null;
  return { ...behind, counted, waiting: await queueLength(tx, region) };
}

/** A drained region places nothing: not even an entry that waits. */
const placeable = ({ total, used, drain }: RegionWithUsage): RegionCapacity => ({
  total: drain === null ? total : zeroCapacity,
  used,
});

export async function availableBehindQueue(
  db: Db,
  counted: RegionWithUsage,
  nowMs: number,
): Promise<CapacityBehindQueue> {
  const queue = walkQueue(placeable(counted), nowMs);
  for await (const one of decideInOrder(db, counted.region.id, queue)) void one;
  return { available: queue.free(), reservedCount: queue.reservedCount() };
}

/** Yields the queue with whether each entry may be placed, from its head until none further may. */
async function* decideInOrder(
  db: Db,
  region: string,
  queue: ReturnType<typeof walkQueue>,
): AsyncGenerator<QueueEntry & { isOn: boolean }> {
  const spots: QueueEntry[] = [];
  for await (const one of queueEntries(db, region)) {
    if (one.isSpot) {
      spots.push(one);
      continue;
    }
    const used = queue.mayReserve(one) ? await capacityUsedBy(db, region, one.ownerId) : zeroCapacity;
    yield { ...one, isOn: queue.visit(one, used) };
    if (queue.isExhausted()) return;
  }
  for (const one of spots) yield { ...one, isOn: queue.visit(one, zeroCapacity) };
}

/** Reserves node ports. Throws without a wait, above the account's limit, or without node ports. */
async function enqueue(
  tx: Db,
  instance: Instance,
  shortage: CapacityShortage,
  waits: EnqueueOptions,
): Promise<Instance> {
  const { ports, nowMs } = waits;
  const { spec, ownerId } = instance;
  const { type } = spec;
  const { id } = shortage.counted.region;
  const need = capacityOfSpec(spec);
  const waitMs = waits.waitMs ?? (await reclaimWaitMs(tx, shortage.counted, { need, ownerId, spec }, waits));
  if (waitMs === null) throw noCapacity(shortage, { type, need, ...waits });
  await requireQuota(tx, ownerId, 'queuedInstances', await countQueued(tx, ownerId, id));
  if (!(await reserveNodePortCapacity(tx, id, ports))) throw noCapacity(shortage, { type, need, ...waits });
  const observed = { ...instance.observed, ...queuedDiagnosis(type, { ...shortage, before: shortage.waiting }) };
  // Strictly increasing, although the date may jump back.
  const lastMs = await queueTailSinceMs(tx, id);
  const waitsSinceMs = lastMs === null ? nowMs : Math.max(nowMs, lastMs + 1);
  return { ...instance, waitsSinceMs, waitsUntilMs: Number.isFinite(waitMs) ? nowMs + waitMs : null, observed };
}

/** Beyond the grace time: the stops, and the start of the newcomer. */
const RECLAIM_MARGIN_MS = 5 * 60_000;

/** Longest wait of a newcomer at full price for which spot instances are reclaimed; null: none. */
async function reclaimWaitMs(
  tx: Db,
  counted: RegionWithUsage,
  { spec, ...newcomer }: { need: Capacity; ownerId: string; spec: InstanceSpec },
  { spotGraceMs, nowMs }: EnqueueOptions,
): Promise<number | null> {
  if (spec.isSpot || counted.drain !== null) return null;
  const { newcomerFits } = await planReclaims(tx, counted, nowMs, newcomer);
  return newcomerFits ? spotGraceMs + RECLAIM_MARGIN_MS : null;
}

const drainText = ({ name }: Region, { reason }: Drain): string =>
  `region ${name} is drained and takes no launches and starts: ${reason}`;

export interface QueueState {
  /** Instances ahead. */
  before: number;
  counted: Pick<RegionWithUsage, 'region' | 'drain'>;
}

export function queuedDiagnosis(
  type: Type,
  { before, counted: { region, drain } }: QueueState,
): ReturnType<typeof diagnosisFields> {
  const why = drain === null ? `waiting for capacity for ${type.name}` : drainText(region, drain);
  return diagnosisFields('NoCapacity', `${why}; instances ahead in the queue: ${before}`);
}

interface NoCapacityOptions extends Pick<EnqueueOptions, 'ports' | 'catalog'> {
  type: Type;
  need: Capacity;
  mayWait?: boolean;
}

/** Why a launch without GPUs lacks what is free. */
function reserveText(need: Capacity, free: Supply): string {
  const all: Supply = { ...free, reservePerGpu: {} };
  if (fits(need, free) || !fits(need, all)) return '';
  const count = countGpus(free.gpus);
  return ` beside what is kept for ${count} free ${count === 1 ? 'GPU' : 'GPUs'} (an operator can allow it with BERTH_GPU_RESERVE=off)`;
}

/** Names the shortage, the nearest type that fits, and how to wait. */
function noCapacity(
  { counted, available, reservedCount, waiting }: CapacityShortage,
  { type, need, ports, catalog, mayWait = true }: NoCapacityOptions,
): Refusal {
  const { region, total, used, drain } = counted;
  if (drain !== null) {
    const wait = mayWait ? ', or send the header "X-Berth-Wait-For-Capacity: true" to wait until the drain ends' : '';
    return new Refusal('no_capacity', `${drainText(region, drain)}; choose another region${wait}`);
  }
  if (used.nodePorts + ports > total.nodePorts) {
    const free = Math.max(0, total.nodePorts - used.nodePorts);
    return new Refusal(
      'no_capacity',
      `region ${region.name} has ${free} free node ports, and the launch needs ${ports}; request fewer ports, or terminate an instance`,
    );
  }
  const free = freeCapacity(counted);
  const short = `${capacityShortfall(need, free)}${reserveText(need, free)}`;
  const reservedFor = `the free capacity is reserved for the instances ahead in the queue, ${reservedCount} in number, for at most ${RESERVATION_MS / 60_000} minutes`;
  const why =
    short === ''
      ? reservedFor
      : waiting === 0
        ? `short of ${short}`
        : `short of ${short}; instances ahead in the queue: ${waiting}`;
  const others = [...catalog.types.values()].filter(
    (other) => other.regionId === region.id && other.isSpot === type.isSpot && other.id !== type.id,
  );
  const nearest = nearestType(type, others, available);
  const instead = nearest
    ? `${nearest.name} (${nearest.id}) would fit now`
    : 'no type fits now; stop or terminate an instance';
  const wait =
    mayWait && fits(need, total)
      ? `, or send the header "X-Berth-Wait-For-Capacity: true" to wait in the capacity queue`
      : '';
  return new Refusal('no_capacity', `no stock of ${type.name} in region ${region.name}: ${why}; ${instead}${wait}`);
}

/** Exchanges the capacity that an instance holds. Throws a `Refusal` when more does not fit. */
export async function exchangeCapacity(
  tx: Db,
  before: InstanceSpec,
  next: InstanceSpec,
  { catalog, nowMs }: Pick<EnqueueOptions, 'catalog' | 'nowMs'>,
): Promise<void> {
  const held = capacityOfSpec(before);
  const need = addCapacity(capacityOfSpec(next), negative(held));
  if (isNothing(need)) return;
  const shortage = await reserveCapacity(tx, next.regionId, need, { ports: 0, nowMs });
  if (shortage !== null) {
    const available = addToRegion(shortage.available, held);
    throw noCapacity({ ...shortage, available }, { type: next.type, need, ports: 0, catalog, mayWait: false });
  }
  await reevaluateQueue(tx, next.regionId, nowMs);
}

/** Releases an instance's capacity and re-evaluates the queue. */
export async function releaseCapacity(tx: Db, spec: InstanceSpec, nowMs: number): Promise<void> {
  const { regionId: region } = spec;
  await adjustCapacity(tx, region, capacityOfSpec(spec), -1);
  await reevaluateQueue(tx, region, nowMs);
}

/** Makes due the entries that may be placed now: all, or those behind a position. */
export async function reevaluateQueue(
  tx: Db,
  region: string,
  nowMs: number,
  behind: QueuePosition | null = null,
): Promise<void> {
  if ((await queueTailSinceMs(tx, region)) === null) return;
  const counted = await regionWithUsage(tx, region);
  if (!counted) return;
  for await (const one of decideInOrder(tx, region, walkQueue(placeable(counted), nowMs)))
    if (one.isOn && (behind === null || isBehind(one, behind))) await wakeEntry(tx, one.id, nowMs);
}

/** Entries behind a leaver that learn their position at once; others at their next check. */
const NOTIFIED_AT_ONCE = 16;

/**
 * Re-evaluates the queue behind an entry that left. Locks only later rows, so two leavers never
 * deadlock. The region may be unlocked: an operation that changes its usage re-evaluates, too.
 */
export async function advanceQueue(tx: Db, region: string, nowMs: number, left: QueuePosition): Promise<void> {
  let notified = 0;
  for await (const { id } of queueEntries(tx, region, left)) {
    await wakeEntry(tx, id, nowMs);
    if (++notified === NOTIFIED_AT_ONCE) break;
  }
  if (notified === NOTIFIED_AT_ONCE) await reevaluateQueue(tx, region, nowMs, left);
}

const isBehind = (one: QueuePosition, other: QueuePosition): boolean =>
  one.waitsSinceMs > other.waitsSinceMs || (one.waitsSinceMs === other.waitsSinceMs && one.id > other.id);

/** Reserves capacity for an entry in turn. Null: reserved. Locks the region. */
export async function reserveInQueueOrder(
  tx: Db,
  spec: InstanceSpec,
  position: QueuePosition,
  nowMs: number,
): Promise<QueueState | null> {
  const { regionId: region } = spec;
  const counted = await lockRegion(tx, region);
  if (!counted) throw new Error(`region ${region} is not in the store`);
  for await (const one of decideInOrder(tx, region, walkQueue(placeable(counted), nowMs))) {
    if (one.id !== position.id) continue;
    if (one.isOn && (await adjustCapacity(tx, region, capacityOfSpec(spec), 1))) return null;
    break;
  }
  return { before: await queueLength(tx, region, position), counted };
}
