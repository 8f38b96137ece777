/**
 * Compares an engine's objects with the rows: differing rows become due, objects without a row are
 * orphans (`domain/compute/orphan.ts`). The engine is listed first: rows are written before objects
 * exist. An object listed while it is removed is why an orphan must be found twice.
 */
import { runningWithDue, settledWithRootDisk } from '../../../store/tables/instance-queries.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { engineObjectKinds, orphanIdOf, type OrphanKind } from '../../../domain/compute/orphan.ts';
import type { OwnedObject } from '../../../engines/contract.ts';
import { isInstanceContainer } from '../../../engines/labels.ts';
import { makeDue } from '../../../store/tables/instances.ts';
import {
  imageRefsAmong,
  intentsAmong,
  ownersWithInstances,
  recordOrphans,
  orphansOf,
  type Intent,
  type OrphanObservation,
} from '../../../store/tables/orphans.ts';
import type { Db } from '../../../store/store.ts';
import { type RegionDrivers, notifyAdministrators, deadlineWithin, type TaskDeps } from '../../kernel/ports.ts';
import type { SeenInstances } from '../../money/ports.ts';

const LIST_DEADLINE_MS = 60_000;
const BATCH_SIZE = 500;
const HINT_BATCH_MS = 50;
const NAMED_IN_EVENT = 20;
const INSTANCE_ID_IN = /notebook-[0-9a-f-]{36}/;

/** Throws if the engine can't list its objects; then nothing changes. */
export async function sweepRegion(deps: TaskDeps, drivers: RegionDrivers): Promise<Required<SeenInstances>> {
  const { store, time, changes } = deps;
  const owned = await drivers.engine.listOwned(deadlineWithin(deps, LIST_DEADLINE_MS));
  const intents = await intentsOf(store.read, owned);
  const running = new Set(owned.filter((one) => isInstanceContainer(one) && one.running).map(({ id }) => id));
  const rows = await runningWithDue(store.read, drivers.regionId);
  const missing = rows.flatMap(({ id, isDue }) => (isDue || running.has(id) ? [] : [id]));
  const present = new Set(owned.filter(isInstanceContainer).map(({ id }) => id));
  const gone = (await settledWithRootDisk(store.read, drivers.regionId)).filter((id) => !present.has(id));
  const due: string[] = [...new Set([...missing, ...gone])];
  for (const one of owned) {
    const intent = intents.get(one.id);
    if (isInstanceContainer(one) && intent && differsFromRow(intent, one)) due.push(one.id);
  }
  for (let from = 0; from < due.length; from += BATCH_SIZE) {
    const batch = due.slice(from, from + BATCH_SIZE);
    await store.write((tx) => makeDue(tx, batch, time.now()));
    changes.publish({ subject: 'instance', isDue: true });
  }
  const orphans = await findOrphans(store.read, owned, intents);
  const { regionId } = drivers;
  const observations = orphans.map((object) => {
    const { id: subjectId, kind, engineName, ownerId, generation, running, createdAtMs } = object;
    const observed = { kind, engineName, ownerId, generation, running, createdAtMs };
    const id = orphanIdOf(regionId, observed);
    return { ...observed, id, regionId, subjectId, imageRef: object.imageRef ?? '' };
  });
  const text = 'found orphaned resources on the engine; POST /api/admin/stray/list lists them';
  await publishOrphans(deps, regionId, { kinds: engineObjectKinds, observations, text });
  const unseen = new Set(owned.filter(({ isUnknown }) => isUnknown === true).map(({ id }) => id));
  // The reconcile of a due row may find that its run has ended.
  const unsure = rows.flatMap(({ id, isDue }) => (isDue || !running.has(id) ? [id] : []));
  return { running, unseen, missing: new Set(unsure) };
}

/** Missing containers are found from the rows. */
function differsFromRow({ idle, status, desired, rootDisk }: Intent, { running, docker }: OwnedObject): boolean {
  if (!idle) return false;
  if (rootDisk === 'lost') return true;
  if (docker !== undefined && (docker === 'running') !== (status === 'Running')) return true;
  return desired === 'released' || desired === 'archived' || (running && status !== 'Running');
}

async function intentsOf(db: Db, owned: readonly OwnedObject[]): Promise<Map<string, Intent>> {
  const ids = [...new Set(owned.filter(({ kind }) => kind !== 'network').map(({ id }) => id))];
  const found = new Map<string, Intent>();
  for (let from = 0; from < ids.length; from += BATCH_SIZE)
    for (const intent of await intentsAmong(db, ids.slice(from, from + BATCH_SIZE))) found.set(intent.id, intent);
  return found;
}

async function findOrphans(
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

/** Networks without containers whose account is gone. */
async function networksWithoutAccount(db: Db, owned: readonly OwnedObject[]): Promise<OwnedObject[]> {
  const holders = new Set(owned.filter(({ kind }) => kind === 'instance').map(({ ownerId }) => ownerId));
  const empty = owned.filter(({ kind, id }) => kind === 'network' && !holders.has(id));
  const orphans: OwnedObject[] = [];
  for (let from = 0; from < empty.length; from += BATCH_SIZE) {
    const batch = empty.slice(from, from + BATCH_SIZE);
    const existing = await ownersWithInstances(
      db,
      batch.map(({ id }) => id),
    );
    orphans.push(...batch.filter(({ id }) => !existing.has(id)));
  }
  return orphans;
}

/** A reference is written before its image is made, and deleted after it. */
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
    // A released instance at rest keeps no image, whatever its row references.
    const mayReference = intent.desired !== 'released' || !intent.idle;
    return !(mayReference && intent.retainedRefs.some((ref) => isSameImage(ref, engineName)));
  });
  const orphans: OwnedObject[] = [];
  for (let from = 0; from < open.length; from += BATCH_SIZE) {
    const batch = open.slice(from, from + BATCH_SIZE);
    const refs = await imageRefsAmong(db, {
      refs: batch.map(({ engineName }) => engineName),
      // Also search by the id in the name: a wrong label alone must not delete a root disk.
      instanceIds: batch.flatMap(({ id, engineName }) => [id, ...(INSTANCE_ID_IN.exec(engineName) ?? [])]),
    });
    orphans.push(...batch.filter(({ engineName }) => !refs.some((ref) => isSameImage(ref, engineName))));
  }
  return orphans;
}

/** Engines omit their default registry from names. */
const isSameImage = (ref: string, engineName: string): boolean => ref === engineName || ref.endsWith(`/${engineName}`);

interface SweepResult {
  kinds: readonly OrphanKind[];
  observations: readonly OrphanObservation[];
  text: string;
}

export async function publishOrphans(
  { store, time, log }: TaskDeps,
  regionId: string,
  { kinds, observations, text }: SweepResult,
): Promise<void> {
  const known = (await orphansOf(store.read, regionId)).some(({ kind }) => kinds.includes(kind));
  if (observations.length === 0 && !known) return;
  const nowMs = time.now();
  // Docker allows two networks of one name.
  const unique = [...new Map(observations.map((one) => [one.id, one])).values()];
  const found = await store.write(async (tx) => {
    const confirmed = await recordOrphans(tx, { regionId, kinds }, unique, nowMs);
    if (confirmed.length === 0) return confirmed;
    const strayIds = confirmed.slice(0, NAMED_IN_EVENT).map(({ id }) => id);
    const data = { count: confirmed.length, strayIds };
    await notifyAdministrators(tx, { atMs: nowMs, kind: 'stray.found', subjectId: regionId, data });
    return confirmed;
  });
  if (found.length === 0) return;
  log.warn({ region: regionId, orphans: found.map(({ id }) => id) }, text);
}

/** Makes hinted instances due, in batches: a crash loop must not cost a write per crash. */
export function watchEngines({ store, regions, time, log, changes, stopping }: TaskDeps): void {
  const hinted = new Set<InstanceId>();
  const pass = (): void => {
    const ids = [...hinted];
    hinted.clear();
    // After shutdown no loop is left to wake: don't mark rows due.
    if (stopping.aborted) return;
    store
      .write((tx) => makeDue(tx, ids, time.now()))
      .then(
        () => changes.publish({ subject: 'instance', isDue: true }),
        (error: unknown) =>
          log.warn({ ids, err: error }, 'lost change notifications of the engine; the next sweep finds the changes'),
      );
  };
  regions.follow(({ engine }) =>
    engine.watch((id) => {
      if (hinted.size === 0) time.after(HINT_BATCH_MS, pass);
      hinted.add(id);
    }, stopping),
  );
}
