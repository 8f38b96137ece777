/** A launch or start that waits in line: it is placed as soon as the region has room for it and its turn has come. */
import { enter } from '../../domain/operation.ts';
import { diagnosed, giveUp } from '../../domain/plan.ts';
import { countCapacity } from '../../store/instances.ts';
import { fail, note, write, type Rest, type Work } from './work.ts';

const LOOK_AGAIN_MS = 5_000;

export async function place(work: Work): Promise<Rest> {
  const { needs, instance } = work;
  const nowMs = needs.now();
  const { regionId, type } = instance.spec;
  const placed = await needs.store.write(async (tx) => {
    if (!(await countCapacity(tx, regionId, type, 1))) return null;
    const operation = enter(instance.operation, 'Placed', nowMs);
    const observed = { ...instance.observed, ...diagnosed('', '') };
    const next = { ...instance, waitsSinceMs: null, waitsUntilMs: null, wishedAtMs: nowMs, operation, observed };
    return write(tx, work, next, { holdsCapacity: true });
  });
  if (placed) {
    work.instance = work.written = placed;
    work.holdsCapacity = true;
    return 'again';
  }
  if (instance.waitsUntilMs !== null && nowMs > instance.waitsUntilMs)
    return fail(work, giveUp(instance, 'NoCapacity', 'no room came free in the time it was to wait'));
  if (instance.observed.diagnosis !== 'NoCapacity')
    await note(work, { observed: diagnosed('NoCapacity', `waits for room for ${type.name}`) });
  return LOOK_AGAIN_MS;
}
