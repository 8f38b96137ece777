/**
 * What takes no input and runs on a timer: each looks at the world and asks for the passes that it needs. The sweep compares all that
 * an engine holds of ours with the intents; hints of an engine are only a faster way to the same place.
 */
import { instanceId } from '../../domain/ids.ts';
import { countedRegions, saveRegion } from '../../store/catalog.ts';
import { moveVersion } from '../../store/events.ts';
import { forgetAnswers } from '../../store/idempotency.ts';
import { makeDue, restingRunningIds, standingAmong, unlistReleased } from '../../store/instances.ts';
import type { Probe } from '../../engines/contract.ts';
import type { Db, Store } from '../../store/store.ts';
import { makeBoundVolumesDue } from '../../store/volumes.ts';
import type { Log } from '../log.ts';
import type { RegionHands, Regions } from '../regions.ts';

export interface SweepNeeds {
  store: Store;
  regions: Regions;
  now: () => number;
  log: Log;
  wake: () => void;
  /** CPU promised for each CPU that is there. */
  cpuOvercommit: number;
  /** Memory of each host that is not for instances: its own programs, the engine, Berth. */
  hostMemoryMiB: number;
  /** An engine answers that did not before (or was not asked). */
  onEngineAnswers: (hands: RegionHands, probe: Probe) => Promise<void>;
  /** How long a released instance stays in the lists. */
  releasedListedMs: number;
  /** Aborted when control stops: an engine that hangs must not keep it. */
  ending: AbortSignal;
}

const PROBE_DEADLINE_MS = 10_000;
const LIST_DEADLINE_MS = 60_000;
/** interface-notes.md and the common practice: a key is good for a day. */
const ANSWERS_KEPT_MS = 24 * 3_600_000;
const TIDY_AT_ONCE = 500;
const IDS_AT_ONCE = 500;

/** Asks each engine how it is; what it can hold is written to the region when it changed. */
export async function probeEngines(needs: SweepNeeds): Promise<void> {
  await Promise.all(
    needs.regions.all().map(async (hands) => {
      const answeredBefore = hands.seen.answers;
      try {
        const probe = await hands.engine.probe(within(needs, PROBE_DEADLINE_MS));
        hands.seen = { probe, answers: true, text: `${probe.version} answers` };
        await saveCapacity(needs, hands);
      } catch (error) {
        if (needs.ending.aborted) return;
        const text = error instanceof Error ? error.message : String(error);
        hands.seen = { ...hands.seen, answers: false, text };
        if (answeredBefore)
          needs.log.warn({ region: hands.regionId, err: error }, 'the engine does not answer; instances wait for it');
      }
      if (!answeredBefore && hands.seen.answers) {
        needs.log.info({ region: hands.regionId, engine: hands.seen.probe?.version }, 'the engine answers');
        if (hands.seen.probe) await needs.onEngineAnswers(hands, hands.seen.probe);
        await sweepRegion(needs, hands);
      }
    }),
  );
}

async function saveCapacity(
  { store, cpuOvercommit, hostMemoryMiB }: SweepNeeds,
  { regionId, nodePortRange, seen: { probe } }: RegionHands,
): Promise<void> {
  const counted = (await countedRegions(store.read)).find(({ region }) => region.id === regionId);
  if (!counted || !probe) return;
  const total = {
    ...probe.capacity,
    cpuMilli: Math.round(probe.capacity.cpuMilli * cpuOvercommit),
    memoryMiB: Math.max(0, probe.capacity.memoryMiB - hostMemoryMiB),
    nodePorts: nodePortRange.last - nodePortRange.first + 1,
  };
  const same = (Object.keys(total) as (keyof typeof total)[]).every((key) => total[key] === counted.total[key]);
  if (!same) await store.write((tx) => saveRegion(tx, counted.region, total));
}

/** Makes due every instance whose container is not as the row says, and every released one that still has something. */
export async function sweepRegion(needs: SweepNeeds, hands: RegionHands): Promise<void> {
  const { store, now, log, wake } = needs;
  const owned = await hands.engine.listOwned(within(needs, LIST_DEADLINE_MS));
  const there = new Map(owned.filter(({ kind }) => kind === 'instance').map((one) => [one.id, one]));
  const ids = (await restingRunningIds(store.read, hands.regionId)).filter((id) => !there.get(id)?.running);
  const stray: string[] = [];
  const held = [...there.keys()];
  for (let from = 0; from < held.length; from += IDS_AT_ONCE) {
    const some = held.slice(from, from + IDS_AT_ONCE);
    const standing = new Map((await standingAmong(store.read, some)).map((one) => [one.id, one]));
    stray.push(...some.filter((id) => !standing.has(id)));
    ids.push(
      ...some.filter(
        (id) => standing.get(id)?.idle && standing.get(id)?.status !== 'Running' && there.get(id)?.running,
      ),
    );
  }
  ids.push(...stray);
  if (ids.length === 0) return;
  if (stray.length > 0)
    log.warn({ region: hands.regionId, ids: stray }, 'the engine holds instances of ours that have no intent');
  // After a reboot of the host it is all of them, and a statement takes only so many parameters.
  for (let from = 0; from < ids.length; from += IDS_AT_ONCE) {
    const some = ids.slice(from, from + IDS_AT_ONCE);
    await store.write((tx) => makeDue(tx, some, now()));
    wake();
  }
}

const within = ({ ending }: SweepNeeds, ms: number): AbortSignal => AbortSignal.any([ending, AbortSignal.timeout(ms)]);

/** Passes on hints of the engines. */
export function watchEngines({ store, regions, now, log, wake, ending }: SweepNeeds): void {
  for (const { engine } of regions.all()) {
    engine.watch((id) => {
      store
        .write((tx) => makeDue(tx, [instanceId(id)], now()))
        .then(wake, (error: unknown) =>
          log.warn({ id, err: error }, 'a hint of the engine was lost; the sweep will see'),
        );
    }, ending);
  }
}

export async function measureVolumes({ store, now, wake }: SweepNeeds): Promise<void> {
  await store.write((tx) => makeBoundVolumesDue(tx, now()));
  wake();
}

/** Takes released instances off the lists after their hour, and forgets idempotency answers after their day. */
export async function tidy({
  store,
  now,
  releasedListedMs,
}: Pick<SweepNeeds, 'store' | 'now' | 'releasedListedMs'>): Promise<void> {
  const unlist = async (tx: Db): Promise<number> => {
    const gone = await unlistReleased(tx, now() - releasedListedMs, TIDY_AT_ONCE);
    const byOwner = new Map<string, number>();
    for (const { ownerId } of gone) byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + 1);
    for (const [ownerId, count] of byOwner) await moveVersion(tx, ownerId, { instances: -count });
    return gone.length;
  };
  const forget = (tx: Db): Promise<number> => forgetAnswers(tx, now() - ANSWERS_KEPT_MS, TIDY_AT_ONCE);
  for (const some of [unlist, forget]) while ((await store.write(some)) === TIDY_AT_ONCE);
}
