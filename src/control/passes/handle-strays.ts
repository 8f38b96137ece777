/**
 * Does with strays what their operator said, or else the policy: stops and deletes. Each deed is claimed in the table first, so that a
 * stray which somebody adopts at that moment is left alone; and an adoption finds out that it came too late for one that is deleted.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import { instanceId } from '../../domain/ids.ts';
import { strayStep, type Stray, type StrayPolicy } from '../../domain/stray.ts';
import type { Owned } from '../../engines/contract.ts';
import { isContainer } from '../../engines/labels.ts';
import { forgetStrays, handStray, noteStray, straysOf } from '../../store/strays.ts';
import type { RegionHands } from '../regions.ts';
import { within, type DeedNeeds } from './deeds.ts';

export interface HandlingNeeds extends DeedNeeds {
  strays: StrayPolicy;
  stopGraceMs: number;
}

const DEED_DEADLINE_MS = 60_000;
/** In one go; the others have their turn after the next sweep, which must not wait long for containers that don't hear. */
const MOST = 64;
const AT_ONCE = 8;
const OTHER_NAME = 'it has a name that no instance has, so it can not be stopped; it can be deleted';

/** After a sweep of the region, of which `hands` are. */
export async function handleStrays(needs: HandlingNeeds, hands: RegionHands): Promise<void> {
  const steps = (await straysOf(needs.store.read, hands.regionId))
    .filter(ofEngine)
    .map((stray) => ({ stray, step: strayStep(stray, needs.strays) }))
    .filter(({ stray, step }) => step === 'discard' || (step === 'halt' && stray.note !== OTHER_NAME));
  const todo = steps.slice(0, MOST);
  while (todo.length > 0 && !needs.ending.aborted)
    await Promise.all(
      todo
        .splice(0, AT_ONCE)
        .map(({ stray, step }) => (step === 'discard' ? discard(needs, hands, stray) : halt(needs, hands, stray))),
    );
}

/** A disk is no engine's (`disk-strays.ts`). */
type EngineStray = Stray & { kind: Owned['kind'] };
const ofEngine = (stray: Stray): stray is EngineStray => stray.kind !== 'disk';

async function halt(needs: HandlingNeeds, { engine }: RegionHands, stray: EngineStray): Promise<void> {
  const can = isContainer({ ...stray, id: stray.subjectId });
  if (!(await claim(needs, stray, { to: stray.handling, note: can ? 'is being stopped' : OTHER_NAME })) || !can) return;
  await attempt(needs, stray, async () => {
    await engine.halt(instanceId(stray.subjectId), needs.stopGraceMs, within(needs, DEED_DEADLINE_MS));
    await needs.store.write((tx) => noteStray(tx, stray.id, 'was stopped'));
    needs.log.warn({ stray: stray.id }, 'a stray was stopped');
  });
}

async function discard(needs: HandlingNeeds, { engine }: RegionHands, stray: EngineStray): Promise<void> {
  if (!(await claim(needs, stray, { to: 'delete', note: 'is being deleted' }))) return;
  await attempt(needs, stray, async () => {
    await engine.discard(
      { ...stray, id: stray.subjectId, imageRef: stray.imageRef === '' ? null : stray.imageRef },
      within(needs, DEED_DEADLINE_MS),
    );
    await needs.store.write((tx) => forgetStrays(tx, [stray.id]));
    needs.log.warn({ stray: stray.id }, 'a stray was deleted');
  });
}

const claim = (
  { store }: HandlingNeeds,
  { id, handling }: Stray,
  change: { to: Stray['handling']; note: string },
): Promise<boolean> => store.write((tx) => handStray(tx, id, { from: [handling], ...change }));

/** What fails is said in the list, and tried again after the next sweep. */
async function attempt({ store, log, ending }: HandlingNeeds, { id }: Stray, deed: () => Promise<void>): Promise<void> {
  try {
    await deed();
  } catch (error) {
    if (ending.aborted) return;
    if (!(error instanceof EngineFault)) throw error;
    await store.write((tx) => noteStray(tx, id, error.message));
    log.warn({ stray: id, err: error }, 'nothing could be done with a stray yet; it is tried again');
  }
}
