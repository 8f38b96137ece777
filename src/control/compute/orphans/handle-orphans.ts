/** Stops and deletes orphans. Each action is claimed first, so that it never races an adoption. */
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { instanceId } from '../../../domain/kernel/ids.ts';
import type { Limits } from '../../../domain/compute/instance-states.ts';
import { orphanStep, type Orphan, type OrphanPolicy } from '../../../domain/compute/orphan.ts';
import type { OwnedObject } from '../../../engines/contract.ts';
import { isInstanceContainer } from '../../../engines/labels.ts';
import { deleteOrphans, setOrphanHandling, setOrphanNote, orphansOf } from '../../../store/tables/orphans.ts';
import { type RegionDrivers, deadlineWithin, type TaskDeps } from '../../kernel/ports.ts';

export interface HandleOrphansDeps extends TaskDeps {
  orphans: OrphanPolicy;
  limits: Pick<Limits, 'stopGraceMs'>;
}

const ACTION_DEADLINE_MS = 60_000;
/** Actions per run: the next sweep must not wait long for containers that ignore a stop. */
const BATCH_SIZE = 64;
const CONCURRENCY = 8;
const OTHER_NAME = 'does not have the name of an instance, so Berth cannot stop it; delete it';

export async function handleOrphans(deps: HandleOrphansDeps, drivers: RegionDrivers): Promise<void> {
  const steps = (await orphansOf(deps.store.read, drivers.regionId))
    .filter(ofEngine)
    .map((orphan) => ({ orphan, step: orphanStep(orphan, deps.orphans) }))
    .filter(({ orphan, step }) => step === 'discard' || (step === 'halt' && orphan.note !== OTHER_NAME));
  const batch = steps.slice(0, BATCH_SIZE);
  while (batch.length > 0 && !deps.stopping.aborted)
    await Promise.all(
      batch
        .splice(0, CONCURRENCY)
        .map(({ orphan, step }) => (step === 'discard' ? discard(deps, drivers, orphan) : halt(deps, drivers, orphan))),
    );
}

type EngineOrphan = Orphan & { kind: OwnedObject['kind'] };
const ofEngine = (orphan: Orphan): orphan is EngineOrphan => orphan.kind !== 'disk';

async function halt(deps: HandleOrphansDeps, { engine }: RegionDrivers, orphan: EngineOrphan): Promise<void> {
  const can = isInstanceContainer({ ...orphan, id: orphan.subjectId });
  if (!(await claim(deps, orphan, { to: orphan.handling, note: can ? 'is being stopped' : OTHER_NAME })) || !can)
    return;
  await attempt(deps, orphan, async () => {
    await engine.halt(instanceId(orphan.subjectId), deps.limits.stopGraceMs, deadlineWithin(deps, ACTION_DEADLINE_MS));
    await deps.store.write((tx) => setOrphanNote(tx, orphan.id, 'was stopped'));
    deps.log.warn({ orphan: orphan.id }, 'stopped an orphan');
  });
}

async function discard(deps: HandleOrphansDeps, { engine }: RegionDrivers, orphan: EngineOrphan): Promise<void> {
  if (!(await claim(deps, orphan, { to: 'delete', note: 'is being deleted' }))) return;
  await attempt(deps, orphan, async () => {
    await engine.discard(
      { ...orphan, id: orphan.subjectId, imageRef: orphan.imageRef === '' ? null : orphan.imageRef },
      deadlineWithin(deps, ACTION_DEADLINE_MS),
    );
    await deps.store.write((tx) => deleteOrphans(tx, [orphan.id]));
    deps.log.warn({ orphan: orphan.id }, 'deleted an orphan');
  });
}

const claim = (
  { store }: HandleOrphansDeps,
  { id, handling }: Orphan,
  change: { to: Orphan['handling']; note: string },
): Promise<boolean> => store.write((tx) => setOrphanHandling(tx, id, { from: [handling], ...change }));

/** A failure is written to the orphan's note; the next sweep retries. */
async function attempt(
  { store, log, stopping }: HandleOrphansDeps,
  { id }: Orphan,
  action: () => Promise<void>,
): Promise<void> {
  try {
    await action();
  } catch (error) {
    if (stopping.aborted) return;
    if (!(error instanceof EngineFault)) throw error;
    await store.write((tx) => setOrphanNote(tx, id, error.message));
    log.warn({ orphan: id, err: error }, 'could not handle an orphan; Berth retries');
  }
}
