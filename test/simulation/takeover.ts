/**
 * Two lives of the same three instances: in one the server is killed, and another starts 2 s later.
 * One instance goes idle, is used once through the gateway, and is stopped; the software of one
 * does not answer for a while; the owner of one stops it after the kill. Both lives must tell the
 * same story.
 */
import { idlePolicy } from '../../src/domain/compute/idle.ts';
import { instanceId } from '../../src/domain/kernel/ids.ts';
import type { Case } from './cases.ts';
import { noFaults } from './call-outcomes.ts';
import { sendRequest } from './client.ts';
import { instanceAction, launch } from './requests.ts';
import { outcomeOf, type Outcome } from './run.ts';
import { callers, type Templates } from './template.ts';
import { World } from './world.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const RESTART_MS = 2 * SECOND;
/** Seconds of the life. */
const POLICY_AT = 8;
const USED = { from: 40, until: 42 };
const SILENT = { from: 60, until: 130 };
const END = 330;
const IDLE_MS = 2 * MINUTE;
/** From the last use to the check that finds none. */
const FOUND_IDLE_MS = 75 * SECOND;
/** A restart begins another round of health checks, of half a minute. */
const ROUND_MS = 45 * SECOND;
const SLACK_MS = 8 * SECOND;

interface Story {
  warnings: { idleSince: number; willStopAt: number }[];
  stops: number[];
  unhealthyMs: number;
  healthyMs: number;
  chargedMs: number;
}

type At = { folder: string; templates: Templates };
type TakeoverCase = Extract<Case, { kind: 'takeover' }>;

export async function compareLives({ atMs }: TakeoverCase, at: At): Promise<Outcome> {
  const calm = await liveOn(at, atMs, false);
  const killed = await liveOn(at, atMs, true);
  const violation = calm.world.violation ?? killed.world.violation;
  const wrong =
    violation ??
    differences(calm.story, killed.story, {
      killedAtMs: calm.dateMs(atMs),
      usedUntilMs: calm.dateMs(USED.until * SECOND),
    })[0] ??
    null;
  return { ...outcomeOf(killed.world), wrong };
}

async function liveOn(at: At, killAtMs: number, isKilled: boolean) {
  const names: string[] = [];
  const isSilent = (id: string, nowMs: number): boolean =>
    id === names[1] && nowMs >= SILENT.from * SECOND && nowMs < SILENT.until * SECOND;
  const world = new World({
    ...at,
    seed: 'takeover',
    fate: (schedule) => ({
      ...noFaults,
      engine: ({ verb, about }) =>
        verb === 'dial' && isSilent(about, schedule.nowMs) ? { mode: 'failBefore', ms: 0, kind: 'busy' } : undefined,
    }),
    times: () => ({ pull: [5, 40], create: [1, 5], start: [1, 5], ready: [5, 20], halt: [20, 40] }),
  });
  const { schedule, wallClock, checker } = world;
  const [caller] = callers;
  if (!caller) throw new Error('there are callers');
  const on = (second: number, fn: () => void): void => void schedule.later(second * SECOND, fn);
  world.startServer();
  for (let nth = 0; nth < 3; nth++)
    on(1 + nth, () => {
      const request = launch(world, caller, null, { ports: [80] });
      sendRequest(world, {
        ...request,
        mustSucceed: true,
        answered(answer, first) {
          request.answered(answer, first);
          names.push((answer as { instanceId: string }).instanceId);
        },
      });
    });
  on(POLICY_AT, () => {
    const idle = idlePolicy(IDLE_MS, { ignore: ['cpu'] });
    const send = world.server?.running?.control.stopPolicies.set(caller, names[0] ?? '', { idle });
    void send?.catch((error: unknown) => world.fail(String(error)));
  });
  on(USED.from, () => {
    const end = world.server?.running?.control.forwarding.beginTraffic(instanceId(names[0] ?? ''), 'use');
    on(USED.until - USED.from, () => end?.());
  });
  // Both lives draw the same until the kill.
  schedule.later(killAtMs, () => void (isKilled && world.kill()));
  schedule.later(killAtMs + RESTART_MS, () => world.startServer());
  schedule.later(killAtMs + RESTART_MS + 4 * SECOND, () =>
    sendRequest(world, { ...instanceAction(world, caller, 'stop', names[2] ?? '', null), mustSucceed: true }),
  );
  const health = { unhealthyMs: 0, healthyMs: 0 };
  const look = (): void => {
    const isHealthy = checker.instances.get(names[1] ?? '')?.instance.observed.healthy;
    if (isHealthy === false && schedule.nowMs > SILENT.from * SECOND) health.unhealthyMs ||= schedule.nowMs;
    if (isHealthy === true && health.unhealthyMs > 0) health.healthyMs ||= schedule.nowMs;
    schedule.later(SECOND, look);
  };
  look();
  while (schedule.nowMs < END * SECOND && world.violation === null) await schedule.step();
  const events = (kind: string) =>
    checker.rows<{ atMs: number; data: string }>(
      'select atMs, data from event where kind = ? and subjectId = ? order by id',
      kind,
      names[0] ?? '',
    );
  const periods = checker.rows<{ openedAtMs: number; chargedUntilMs: number }>(
    `select openedAtMs, chargedUntilMs from usagePeriod where subjectId = ? and meter = 'compute' and state = 'charged'`,
    names[2] ?? '',
  );
  const story: Story = {
    ...health,
    warnings: events('instance.idleWarning').map(({ data }) => JSON.parse(data)),
    stops: events('instance.stopWished').map(({ atMs }) => atMs),
    chargedMs: periods.reduce((sum, { openedAtMs, chargedUntilMs }) => sum + chargedUntilMs - openedAtMs, 0),
  };
  await world.stop();
  return { world, story, dateMs: (ms: number) => wallClock.at(ms) };
}

function differences(
  calm: Story,
  killed: Story,
  { killedAtMs, usedUntilMs }: { killedAtMs: number; usedUntilMs: number },
): string[] {
  const wrong: string[] = [];
  const expect = (what: string, isSo: boolean): void => {
    if (!isSo) wrong.push(`${what}: ${JSON.stringify(killed)} instead of ${JSON.stringify(calm)}`);
  };
  const [warning] = calm.warnings;
  const [warned] = killed.warnings;
  if (!warning || calm.stops.length !== 1 || calm.unhealthyMs === 0 || calm.healthyMs === 0 || calm.chargedMs === 0)
    return [`the life without a kill has no story: ${JSON.stringify(calm)}`];
  const [stop = 0] = killed.stops;
  expect('one warning and one stop', killed.warnings.length === 1 && killed.stops.length === 1);
  expect('a stop at the announced time', stop >= (warned?.willStopAt ?? 0));
  const lateMs = (warned?.idleSince ?? 0) - warning.idleSince;
  const isFound = killedAtMs > warning.idleSince + FOUND_IDLE_MS;
  expect('idle since the same time', Math.abs(lateMs) <= (isFound ? 0 : FOUND_IDLE_MS + RESTART_MS + SECOND));
  expect('not idle before its last use', (warned?.idleSince ?? 0) >= usedUntilMs - SECOND);
  expect('no later stop', stop - (calm.stops[0] ?? 0) <= lateMs + SLACK_MS);
  expect('unhealthy no later', killed.unhealthyMs - calm.unhealthyMs <= ROUND_MS && killed.unhealthyMs > 0);
  expect('healthy again no later', killed.healthyMs - calm.healthyMs <= SLACK_MS && killed.healthyMs > 0);
  expect('the same charge', Math.abs(killed.chargedMs - calm.chargedMs) <= 1_000);
  return wrong;
}
