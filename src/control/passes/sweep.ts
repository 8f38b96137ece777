/**
 * The sweep compares all that an engine holds of ours with the intents, and asks for the passes that it needs; hints of an engine are
 * only a faster way to the same place.
 */
import type { InstanceId } from '../../domain/ids.ts';
import { makeDue, restingRunningIds, standingAmong } from '../../store/instances.ts';
import type { RegionHands } from '../regions.ts';
import { within, type DeedNeeds } from './deeds.ts';

const LIST_DEADLINE_MS = 60_000;
const IDS_AT_ONCE = 500;
const HINTS_GATHERED_MS = 50;

/** Makes due every instance whose container is not as the row says, and every released one that still has something. */
export async function sweepRegion(needs: DeedNeeds, hands: RegionHands): Promise<void> {
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

/** Passes on hints of the engines, gathered: a program that dies in a loop must not buy a write for each of its deaths. */
export function watchEngines({ store, regions, now, time, log, wake, ending }: DeedNeeds): void {
  const hinted = new Set<InstanceId>();
  const pass = (): void => {
    const ids = [...hinted];
    hinted.clear();
    store
      .write((tx) => makeDue(tx, ids, now()))
      .then(wake, (error: unknown) =>
        log.warn({ ids, err: error }, 'hints of the engine were lost; the sweep will see'),
      );
  };
  for (const { engine } of regions.all()) {
    engine.watch((id) => {
      if (hinted.size === 0) time.after(HINTS_GATHERED_MS, pass);
      hinted.add(id);
    }, ending);
  }
}
