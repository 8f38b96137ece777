/** Probes engines and updates the regions' capacity. */
import { isDeepStrictEqual } from 'node:util';
import { asError, errorText, reasonText } from '../../../domain/kernel/unknown-error.ts';
import type { Probe } from '../../../engines/contract.ts';
import {
  regionWithUsage,
  saveRegionTotals,
  type RegionCapacity,
  type RegionTotal,
} from '../../../store/tables/catalog.ts';
import { countGpus, isNoModel } from '../../../domain/regions/catalog.ts';
import { fits, smallestReserve } from '../../../domain/regions/placement.ts';
import { withoutSickCards, type CardDeps } from './card-quarantine.ts';
import { reevaluateQueue } from './queue.ts';
import {
  makeEachRegion,
  type RegionDrivers,
  makeReminder,
  type Reminder,
  deadlineWithin,
  type TaskDeps,
  type UseCaseDeps,
} from '../../kernel/ports.ts';

export interface ProbeDeps extends TaskDeps, Pick<UseCaseDeps, 'readCatalog'>, Pick<CardDeps, 'sampler'> {
  /** Whether launches without GPUs leave a reserve for free ones. */
  reservesForGpus: boolean;
  /** Called when an engine answers for the first time or again. */
  onEngineAnswers: (drivers: RegionDrivers, probe: Probe) => Promise<void>;
}

const PROBE_DEADLINE_MS = 10_000;

/** Returns the task. An engine that is away is logged at once, then at growing intervals. */
export function makeProbe(deps: ProbeDeps): () => Promise<void> {
  const outages = new WeakMap<RegionDrivers, Reminder>();
  return makeEachRegion(deps.regions, (drivers) => probeEngine(deps, drivers, outages));
}

async function probeEngine(
  deps: ProbeDeps,
  drivers: RegionDrivers,
  outages: WeakMap<RegionDrivers, Reminder>,
): Promise<void> {
  const answeredBefore = drivers.health.answers;
  try {
    const answer = await drivers.engine.probe(deadlineWithin(deps, PROBE_DEADLINE_MS));
    const probe = await withoutSickCards(deps, drivers.regionId, answer);
    drivers.health = { probe, answers: true, text: `${probe.version} answers` };
    await saveCapacity(deps, drivers);
    outages.delete(drivers);
  } catch (error) {
    if (deps.stopping.aborted) return;
    drivers.health = { ...drivers.health, answers: false, text: errorText(error) };
    logOutage(deps, drivers, outages, error);
  }
  if (!answeredBefore && drivers.health.answers && drivers.health.probe)
    await onAnswering(deps, drivers, drivers.health.probe);
}

function logOutage(
  { log, time }: ProbeDeps,
  drivers: RegionDrivers,
  outages: WeakMap<RegionDrivers, Reminder>,
  error: unknown,
): void {
  const region = drivers.regionId;
  let reminder = outages.get(drivers);
  if (reminder === undefined) {
    reminder = makeReminder(time);
    outages.set(drivers, reminder);
    log.debug({ region, stack: asError(error).stack }, 'the probe of the engine failed');
  }
  if (reminder.isDue())
    log.warn({ region, reason: reasonText(error) }, 'the engine does not answer; Berth waits for the engine');
}

/** Keeps existing reservations: with less capacity than is reserved, nothing more is reserved. */
async function saveCapacity(deps: ProbeDeps, drivers: RegionDrivers): Promise<void> {
  const { store, time, changes, log } = deps;
  const {
    regionId,
    health: { probe },
  } = drivers;
  const counted = await regionWithUsage(store.read, regionId);
  if (!counted || !probe) return;
  const { total: was, used } = counted;
  const all = withKnownNames(totalOf(drivers, probe), was);
  const total = await withReserve(deps, regionId, all);
  if (isDeepStrictEqual(total, was)) return;
  await store.write(async (tx) => {
    await saveRegionTotals(tx, regionId, total);
    await reevaluateQueue(tx, regionId, time.now());
  });
  changes.publish({ subject: 'instance', isDue: true });
  if (!fits(used, all))
    log.warn(
      { region: regionId, total, promised: used },
      'the engine has less capacity than is allocated; Berth allocates no more of the short resource',
    );
}

/** Lost names stay with none, so that their types get no other GPUs. */
function withKnownNames(total: RegionCapacity, was: RegionCapacity): RegionCapacity {
  const names = Object.keys(was.gpus).filter((name) => !isNoModel(name) && !Object.hasOwn(total.gpus, name));
  return { ...total, gpus: { ...total.gpus, ...Object.fromEntries(names.map((name) => [name, 0])) } };
}

async function withReserve(
  { readCatalog, reservesForGpus }: ProbeDeps,
  regionId: string,
  total: RegionCapacity,
): Promise<RegionTotal> {
  if (!reservesForGpus || countGpus(total.gpus) === 0) return total;
  const types = [...(await readCatalog()).types.values()].filter((type) => type.regionId === regionId);
  return { ...total, reservePerGpu: smallestReserve(total.gpus, types) };
}

/** Capacity of a region for instances. */
export const totalOf = (
  {
    nodePortRange,
    cpuOvercommit,
    hostMemoryMiB,
  }: Pick<RegionDrivers, 'nodePortRange' | 'cpuOvercommit' | 'hostMemoryMiB'>,
  { capacity }: Pick<Probe, 'capacity'>,
): RegionCapacity => ({
  cpuMilli: whole(capacity.cpuMilli * cpuOvercommit),
  memoryMiB: whole(capacity.memoryMiB - hostMemoryMiB),
  gpus: Object.fromEntries(Object.entries(capacity.gpus).map(([name, count]) => [name, whole(count)])),
  nodePorts: nodePortRange.last - nodePortRange.first + 1,
});

/** Counts invalid amounts as zero. */
const whole = (amount: number): number => (Number.isFinite(amount) ? Math.max(0, Math.floor(amount)) : 0);

/** The next probe retries a failure. */
async function onAnswering(deps: ProbeDeps, drivers: RegionDrivers, probe: Probe): Promise<void> {
  try {
    await deps.onEngineAnswers(drivers, probe);
    deps.log.info({ region: drivers.regionId, engine: probe.version }, 'the engine answers');
  } catch (error) {
    drivers.health = { ...drivers.health, answers: false };
    throw error;
  }
}
