/**
 * The sweep compares all that an engine holds of ours with the intents. What is not as its row says gets a pass; what no row explains
 * is a stray (`domain/orphan.ts`). Hints of an engine are only a faster way to the same passes.
 *
 * The engine is asked first and the store after it: an intent is written before its object is made, so whatever the list shows has its
 * row by then. What is listed while it is being removed is why a stray must be seen twice.
 */
import type { InstanceId } from '../../domain/ids.ts';
import { orphanIdOf, type OrphanKind } from '../../domain/orphan.ts';
import type { OwnedObject } from '../../engines/contract.ts';
import { isInstanceContainer } from '../../engines/labels.ts';
import { makeDue, settledRunningIds } from '../../store/tables/instances.ts';
import {
  imageRefsAmong,
  intentsAmong,
  ownersWithInstances,
  recordOrphans,
  orphansOf,
  type Intent,
  type OrphanObservation,
} from '../../store/tables/orphans.ts';
import type { Db } from '../../store/store.ts';
import type { RegionDrivers } from '../base/regions.ts';
import { notifyAdministrators } from '../base/notify-administrators.ts';
import { within, type TaskDeps } from '../base/task-deps.ts';

const LIST_DEADLINE_MS = 60_000;
/** A statement takes only so many parameters. */
const IDS_AT_ONCE = 500;
const HINTS_GATHERED_MS = 50;
/** Of what was found at once; the list has all of them. */
const NAMED_IN_EVENT = 20;
const INSTANCE_ID_IN = /notebook-[0-9a-f-]{36}/;

/** Finds what is not as the intents say. Throws when the engine can't tell all it holds, and nothing is changed. */
export async function sweepRegion(deps: TaskDeps, drivers: RegionDrivers): Promise<void> {
  const { store, now, wake } = deps;
  const owned = await drivers.engine.listOwned(within(deps, LIST_DEADLINE_MS));
  const intents = await intentsOf(store.read, owned);
  const running = new Set(owned.filter((one) => isInstanceContainer(one) && one.running).map(({ id }) => id));
  const due = (await settledRunningIds(store.read, drivers.regionId)).filter((id) => !running.has(id));
  for (const one of owned) {
    const intent = intents.get(one.id);
    if (isInstanceContainer(one) && intent && isOtherThanWished(intent, one)) due.push(one.id);
  }
  // After a reboot of the host it is all of them.
  for (let from = 0; from < due.length; from += IDS_AT_ONCE) {
    const some = due.slice(from, from + IDS_AT_ONCE);
    await store.write((tx) => makeDue(tx, some, now()));
    wake();
  }
  const orphans = await unexplained(store.read, owned, intents);
  const sightings = orphans.map(({ id, kind, engineName, ownerId, generation, running, createdAtMs, imageRef }) => ({
    kind,
    engineName,
    ownerId,
    generation,
    running,
    createdAtMs,
    id: orphanIdOf(drivers.regionId, { kind, engineName }),
    regionId: drivers.regionId,
    subjectId: id,
    imageRef: imageRef ?? '',
  }));
  const text = 'the engine holds objects of ours that no intent explains; POST /admin/stray/list tells them';
  await publishOrphans(deps, drivers.regionId, { kinds: ['instance', 'docker', 'network', 'image'], sightings, text });
}

/** A container that stands where a row at rest says otherwise. Missing ones are found from the rows. */
function isOtherThanWished({ idle, status, desired }: Intent, { running, docker }: OwnedObject): boolean {
  if (!idle) return false;
  if (docker !== undefined && (docker === 'running') !== (status === 'Running')) return true;
  return desired === 'released' || desired === 'archived' || (running && status !== 'Running');
}

async function intentsOf(db: Db, owned: readonly OwnedObject[]): Promise<Map<string, Intent>> {
  const ids = [...new Set(owned.filter(({ kind }) => kind !== 'network').map(({ id }) => id))];
  const found = new Map<string, Intent>();
  for (let from = 0; from < ids.length; from += IDS_AT_ONCE)
    for (const intent of await intentsAmong(db, ids.slice(from, from + IDS_AT_ONCE))) found.set(intent.id, intent);
  return found;
}

async function unexplained(
  db: Db,
  owned: readonly OwnedObject[],
  intents: ReadonlyMap<string, Intent>,
): Promise<OwnedObject[]> {
  const instances = owned.filter(
    (one) => one.kind === 'instance' && !(isInstanceContainer(one) && intents.has(one.id)),
  );
  const dockers = owned.filter(({ kind, id }) => kind === 'docker' && !intents.has(id));
  return [
    ...instances,
    ...dockers,
    ...(await networksWithoutAccount(db, owned)),
    ...(await imagesWithoutIntent(db, owned, intents)),
  ];
}

/** A network is there for containers, which explain it; one without any is looked for in the store. */
async function networksWithoutAccount(db: Db, owned: readonly OwnedObject[]): Promise<OwnedObject[]> {
  const holders = new Set(owned.filter(({ kind }) => kind === 'instance').map(({ ownerId }) => ownerId));
  const empty = owned.filter(({ kind, id }) => kind === 'network' && !holders.has(id));
  const orphans: OwnedObject[] = [];
  for (let from = 0; from < empty.length; from += IDS_AT_ONCE) {
    const some = empty.slice(from, from + IDS_AT_ONCE);
    const standing = await ownersWithInstances(
      db,
      some.map(({ id }) => id),
    );
    orphans.push(...some.filter(({ id }) => !standing.has(id)));
  }
  return orphans;
}

/** An image is explained by the instance or the catalog that names it (which each does before it is made, until it is removed), or a container made from it. */
async function imagesWithoutIntent(
  db: Db,
  owned: readonly OwnedObject[],
  intents: ReadonlyMap<string, Intent>,
): Promise<OwnedObject[]> {
  const used = new Set(owned.map(({ imageRef }) => imageRef));
  const open = owned.filter(({ kind, id, engineName }) => {
    if (kind !== 'image' || used.has(engineName)) return false;
    const intent = intents.get(id);
    if (!intent) return true;
    // Of a released one that is at rest nothing is to be left, whatever its row names.
    const mayName = intent.desired !== 'released' || !intent.idle;
    return !(mayName && intent.retainedRefs.some((ref) => names(ref, engineName)));
  });
  const orphans: OwnedObject[] = [];
  for (let from = 0; from < open.length; from += IDS_AT_ONCE) {
    const some = open.slice(from, from + IDS_AT_ONCE);
    const refs = await imageRefsAmong(db, {
      refs: some.map(({ engineName }) => engineName),
      // Also by the id in its name: a label alone must not be what a root disk is thrown away for.
      instanceIds: some.flatMap(({ id, engineName }) => [id, ...(INSTANCE_ID_IN.exec(engineName) ?? [])]),
    });
    orphans.push(...some.filter(({ engineName }) => !refs.some((ref) => names(ref, engineName))));
  }
  return orphans;
}

/** Engines leave out the registry that they take for granted. */
const names = (ref: string, engineName: string): boolean => ref === engineName || ref.endsWith(`/${engineName}`);

interface Seen {
  kinds: readonly OrphanKind[];
  /** All of these kinds in the region. */
  sightings: readonly OrphanObservation[];
  /** For the log. */
  text: string;
}

/** Writes down what was seen, and tells administrators of those that count from now on. */
export async function publishOrphans(
  { store, now, log }: TaskDeps,
  regionId: string,
  { kinds, sightings, text }: Seen,
): Promise<void> {
  const known = (await orphansOf(store.read, regionId)).some(({ kind }) => kinds.includes(kind));
  if (sightings.length === 0 && !known) return;
  const nowMs = now();
  // Docker lets two networks have one name.
  const seen = [...new Map(sightings.map((one) => [one.id, one])).values()];
  const found = await store.write(async (tx) => {
    const confirmed = await recordOrphans(tx, { regionId, kinds }, seen, nowMs);
    if (confirmed.length === 0) return confirmed;
    const strayIds = confirmed.slice(0, NAMED_IN_EVENT).map(({ id }) => id);
    const data = { count: confirmed.length, strayIds };
    await notifyAdministrators(tx, { atMs: nowMs, kind: 'stray.found', subjectId: regionId, data });
    return confirmed;
  });
  if (found.length === 0) return;
  log.warn({ region: regionId, orphans: found.map(({ id }) => id) }, text);
}

/** Passes on hints of the engines, gathered: a program that dies in a loop must not buy a write for each of its deaths. */
export function watchEngines({ store, regions, now, time, log, wake, ending }: TaskDeps): void {
  const hinted = new Set<InstanceId>();
  const pass = (): void => {
    const ids = [...hinted];
    hinted.clear();
    // What a control that has ended makes due, nobody is woken for.
    if (ending.aborted) return;
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
