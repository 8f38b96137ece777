/**
 * Loses one of two regions while the other passes through the fault-free run: nothing there is
 * delayed. Then the lost region is back, sometimes without its containers, and both converge.
 */
import { sendRequest, type Request } from './client.ts';
import { unfinished } from './convergence.ts';
import { runWithoutFaults, type Until } from './fault-free-run.ts';
import { comeBack } from './host-events.ts';
import { createVolume, instanceAction, launch, serialOf } from './requests.ts';
import { losses, type Look, type SimulatedRegion } from './simulated-region.ts';
import { createSnapshot, deleteVolume } from './storage-requests.ts';
import { callers } from './template.ts';
import type { World } from './world.ts';

const SETTLES_WITHIN_MS = 3 * 3_600_000;
const SOON_MS = 240_000;
const REQUESTS_WITHIN_MS = 60_000;
const CHECK_EVERY_MS = 5_000;
/** Two intervals of the background task, and a call that takes long. */
const looks: Record<Look, number> = {
  probe: 40_000,
  sweep: 70_000,
  listDisks: 70_000,
  listMounted: 80_000,
  space: 40_000,
};
/** Whole minutes, up to the last sweep. */
const BOOKED_WITHIN_MS = 180_000;

export async function runDuringLoss(world: World, lost: SimulatedRegion, until: Until): Promise<void> {
  const { schedule } = world;
  const sound = world.regions.find((one) => one !== lost);
  if (!sound) throw new Error('a world with a lost region has another');
  for (let count = schedule.between(1, 2); count > 0; count--) sendRequest(world, drawInside(world, lost, 0));
  const losesAtMs = schedule.nowMs + schedule.spread(500, 60_000);
  await until(() => schedule.nowMs >= losesAtMs, Infinity);
  lost.lose(schedule.oneOf(losses));
  if (schedule.chance(0.3)) world.kill();
  await until(() => world.server?.running !== null && world.server !== null, SOON_MS);
  for (let count = schedule.between(2, 8); count > 0; count--)
    schedule.later(schedule.random() * REQUESTS_WITHIN_MS, () =>
      sendRequest(world, drawInside(world, lost, schedule.between(0, 9))),
    );
  const unwatch = watch(world, sound);
  await runWithoutFaults(world, sound, until);
  // A released instance keeps the shared disk of its owner mounted until it leaves the lists.
  const left = (): string[] => unfinished(world, sound).filter((text) => !text.startsWith('shared/'));
  if (!(await until(() => left().length === 0, SOON_MS)) && world.violation === null)
    world.fail(`beside a lost region it does not converge: ${left().join('; ')}`);
  unwatch();
  comeBack(world, lost);
  if (!(await until(() => unfinished(world).length === 0, SETTLES_WITHIN_MS)) && world.violation === null)
    world.fail(`after the loss of a region it does not converge: ${unfinished(world).join('; ')}`);
}

/** Requests to the region alone; the first kinds are launches. */
function drawInside(world: World, region: SimulatedRegion, kind: number): Request {
  const { schedule, checker } = world;
  const caller = schedule.oneOf(callers);
  const key = `inside ${serialOf(world)}`;
  const own = <Row extends { ownerId: string; regionId: string }>(rows: Iterable<Row>): Row[] =>
    [...rows].filter(({ ownerId, regionId }) => ownerId === caller.accountId && regionId === region.region.id);
  const instances = own([...checker.instances.values()].map(({ row }) => row));
  const volumes = own(checker.volumes.values());
  if (kind >= 4 && kind < 8 && instances.length > 0) {
    const action = schedule.oneOf(['stop', 'start', 'restart', 'archive', 'terminate'] as const);
    return instanceAction(world, caller, action, schedule.oneOf(instances).id, key);
  }
  if (kind === 8 && volumes.length > 0) return createSnapshot(world, caller, schedule.oneOf(volumes).id, key, key);
  if (kind === 9 && volumes.length > 0) return deleteVolume(world, caller, schedule.oneOf(volumes).id, key);
  if (kind >= 3) return createVolume(world, caller, key, `v ${key}`, region);
  return launch(world, caller, key, { region, ports: [80], volumes: volumes.slice(0, 1).map(({ id }) => id) });
}

/** Checks that the server looks at the region as often as ever, and books what runs there. */
function watch(world: World, { region, lookedAtMs }: SimulatedRegion): () => void {
  const { schedule, checker, wallClock } = world;
  let sinceMs = schedule.nowMs;
  let cancel = (): void => {};
  const check = (): void => {
    cancel = schedule.later(CHECK_EVERY_MS, check);
    const { server } = world;
    if (!server?.running || server.pausedUntilMs > schedule.nowMs) return void (sinceMs = schedule.nowMs);
    for (const [look, withinMs] of Object.entries(looks)) {
      const lastMs = Math.max(sinceMs, lookedAtMs.get(look) ?? 0);
      if (schedule.nowMs - lastMs > withinMs)
        world.fail(`another region is lost, and ${look} of ${region.name} was ${schedule.nowMs - lastMs} ms ago`);
    }
    if (schedule.nowMs - sinceMs > looks.probe && !server.regions?.of(region.id).health.answers)
      world.fail(`another region is lost, and ${region.name} counts as away`);
    const open = checker.rows<{ subjectId: string; openedAtMs: number; chargedUntilMs: number }>(
      'select subjectId, openedAtMs, chargedUntilMs from usagePeriod where regionId = ? and closedAtMs is null and isCharging = 1',
      region.id,
    );
    for (const { subjectId, openedAtMs, chargedUntilMs } of open) {
      const unbookedMs = wallClock.now() - Math.max(openedAtMs, chargedUntilMs);
      if (unbookedMs > BOOKED_WITHIN_MS && schedule.nowMs - sinceMs > BOOKED_WITHIN_MS)
        world.fail(`another region is lost, and ${subjectId} in ${region.name} is not booked for ${unbookedMs} ms`);
    }
  };
  check();
  return () => cancel();
}
