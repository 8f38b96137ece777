/** Looks every few seconds for what should have been stopped, and moves the date to edges. */
import { nextEdge } from '../oracle/off-peak-hours.ts';
import { available, isOpen } from './money-books.ts';
import { unitOfMode } from './paid-ahead-books.ts';
import type { World } from './world.ts';

const LOOK_EVERY_MS = 5_000;
/** Stops follow within seconds; a commit may fail for some. */
const STOPS_WITHIN_MS = 60_000;
/** Without money they follow a booking. */
const MONEY_STOPS_WITHIN_MS = 180_000;

/** Instances that run and should not: why, and for how long they may. */
function overdue({ checker, wallClock }: World): Map<string, number> {
  const nowMs = wallClock.now();
  const { windows, accounts, ends } = checker.money;
  const found = new Map<string, number>();
  for (const { instance } of checker.instances.values()) {
    const { id, ownerId, desired, observed, spec, priceMicros } = instance;
    if (desired !== 'running' || observed.status !== 'Running') continue;
    if (spec.chargeMode === 'tidePerHour' && !isOpen(windows.get(spec.regionId), nowMs))
      found.set(`${id} runs outside of the off-peak windows`, STOPS_WITHIN_MS);
    if (unitOfMode(spec.chargeMode) !== undefined) {
      const endsAtMs = ends.get(id) ?? null;
      if (endsAtMs === null || endsAtMs <= nowMs) found.set(`${id} runs beyond its paid time`, STOPS_WITHIN_MS);
      continue;
    }
    const money = accounts.get(ownerId);
    if (money && priceMicros > 0n && available(money, nowMs) === 0)
      found.set(`${id} runs, and its account has no money`, MONEY_STOPS_WITHIN_MS);
  }
  return found;
}

export function watchMoney(world: World): void {
  const { schedule } = world;
  let life = 0;
  const since = new Map<string, number>();
  const look = (): void => {
    schedule.later(LOOK_EVERY_MS, look);
    const { server } = world;
    if (!server?.running || server.pausedUntilMs > schedule.nowMs || life !== server.number) {
      life = server?.running ? server.number : 0;
      return since.clear();
    }
    const found = overdue(world);
    for (const text of since.keys()) if (!found.has(text)) since.delete(text);
    for (const [text, withinMs] of found) {
      const sinceMs = since.get(text) ?? schedule.nowMs;
      since.set(text, sinceMs);
      if (schedule.nowMs - sinceMs <= withinMs) continue;
      // After a failed sync the store writes nothing until the supervisor restarts the server.
      void server.healthy().then((healthy) => healthy && world.fail(`${text} for ${schedule.nowMs - sinceMs} ms`));
    }
  };
  look();
}

/** Moves the date to shortly before a window, an expiry, or an end of paid time. */
export function jumpToEdge(world: World): void {
  const { schedule, wallClock, checker, server } = world;
  if (!server) return;
  const nowMs = wallClock.now();
  const { windows } = checker.money;
  const sql = `select dueAtMs as atMs from paidTime where dueAtMs is not null
    union select endsAtMs from paidTime where endsAtMs is not null
    union select expiresAtMs from creditGrant where expiresAtMs is not null`;
  const edges = checker.rows<{ atMs: number }>(sql).map(({ atMs }) => atMs);
  for (const one of windows.values()) if (one) edges.push(nextEdge(one.zone, one.windows, nowMs) ?? 0);
  const later = edges.filter((atMs) => atMs > nowMs).toSorted((one, other) => one - other);
  if (later.length === 0) return;
  const ms = schedule.oneOf(later) - nowMs - schedule.spread(500, 30_000);
  schedule.say(`the date jumps to an edge, by ${ms} ms`);
  if (ms > 0) wallClock.jump(ms);
}
