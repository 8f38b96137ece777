/**
 * Does with strays what their operator said, or else the policy: stops and deletes. Each deed is claimed in the table first, so that a
 * stray which somebody adopts at that moment is left alone; and an adoption finds out that it came too late for one that is deleted.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import { instanceId } from '../../domain/ids.ts';
import { orphanStep, type Orphan, type OrphanPolicy } from '../../domain/orphan.ts';
import type { OwnedObject } from '../../engines/contract.ts';
import { isInstanceContainer } from '../../engines/labels.ts';
import { deleteOrphans, setOrphanHandling, setOrphanNote, orphansOf } from '../../store/tables/orphans.ts';
import type { RegionDrivers } from '../base/regions.ts';
import { within, type TaskDeps } from '../base/task-deps.ts';

export interface HandleOrphansDeps extends TaskDeps {
  orphans: OrphanPolicy;
  stopGraceMs: number;
}

const DEED_DEADLINE_MS = 60_000;
/** In one go; the others have their turn after the next sweep, which must not wait long for containers that don't hear. */
const MOST = 64;
const AT_ONCE = 8;
const OTHER_NAME = 'it has a name that no instance has, so it can not be stopped; it can be deleted';

/** After a sweep of the region, of which `hands` are. */
export async function handleOrphans(deps: HandleOrphansDeps, drivers: RegionDrivers): Promise<void> {
  const steps = (await orphansOf(deps.store.read, drivers.regionId))
    .filter(ofEngine)
    .map((orphan) => ({ orphan, step: orphanStep(orphan, deps.orphans) }))
    .filter(({ orphan, step }) => step === 'discard' || (step === 'halt' && orphan.note !== OTHER_NAME));
  const todo = steps.slice(0, MOST);
  while (todo.length > 0 && !deps.ending.aborted)
    await Promise.all(
      todo
        .splice(0, AT_ONCE)
        .map(({ orphan, step }) => (step === 'discard' ? discard(deps, drivers, orphan) : halt(deps, drivers, orphan))),
    );
}

/** A disk is no engine's (`disk-strays.ts`). */
type EngineOrphan = Orphan & { kind: OwnedObject['kind'] };
const ofEngine = (orphan: Orphan): orphan is EngineOrphan => orphan.kind !== 'disk';

async function halt(deps: HandleOrphansDeps, { engine }: RegionDrivers, orphan: EngineOrphan): Promise<void> {
  const can = isInstanceContainer({ ...orphan, id: orphan.subjectId });
  if (!(await claim(deps, orphan, { to: orphan.handling, note: can ? 'is being stopped' : OTHER_NAME })) || !can)
    return;
  await attempt(deps, orphan, async () => {
    await engine.halt(instanceId(orphan.subjectId), deps.stopGraceMs, within(deps, DEED_DEADLINE_MS));
    await deps.store.write((tx) => setOrphanNote(tx, orphan.id, 'was stopped'));
    deps.log.warn({ orphan: orphan.id }, 'a stray was stopped');
  });
}

async function discard(deps: HandleOrphansDeps, { engine }: RegionDrivers, orphan: EngineOrphan): Promise<void> {
  if (!(await claim(deps, orphan, { to: 'delete', note: 'is being deleted' }))) return;
  await attempt(deps, orphan, async () => {
    await engine.discard(
      { ...orphan, id: orphan.subjectId, imageRef: orphan.imageRef === '' ? null : orphan.imageRef },
      within(deps, DEED_DEADLINE_MS),
    );
    await deps.store.write((tx) => deleteOrphans(tx, [orphan.id]));
    deps.log.warn({ orphan: orphan.id }, 'a stray was deleted');
  });
}

const claim = (
  { store }: HandleOrphansDeps,
  { id, handling }: Orphan,
  change: { to: Orphan['handling']; note: string },
): Promise<boolean> => store.write((tx) => setOrphanHandling(tx, id, { from: [handling], ...change }));

/** What fails is said in the list, and tried again after the next sweep. */
async function attempt(
  { store, log, ending }: HandleOrphansDeps,
  { id }: Orphan,
  deed: () => Promise<void>,
): Promise<void> {
  try {
    await deed();
  } catch (error) {
    if (ending.aborted) return;
    if (!(error instanceof EngineFault)) throw error;
    await store.write((tx) => setOrphanNote(tx, id, error.message));
    log.warn({ orphan: id, err: error }, 'nothing could be done with a stray yet; it is tried again');
  }
}
