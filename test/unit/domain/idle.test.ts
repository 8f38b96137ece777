import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  defaultIdleLimits,
  idlePolicy,
  isActive,
  isFresh,
  assessIdleness,
  requiredSignals,
  signalNames,
  unreadSignal,
  noIdleWatch,
  type IdleVerdict,
  type IdleSignal,
  type SignalName,
  type IdleWatch,
} from '../../../src/domain/compute/idle.ts';

const limits = defaultIdleLimits;
const { checkEveryMs, staleMs } = limits;
const MINUTE_MS = 60_000;
const policy = idlePolicy(10 * MINUTE_MS);
const required = requiredSignals(policy, true);
const startMs = 1_700_000_000_000;

const quiet = (name: SignalName, atMs: number): IdleSignal => ({
  name,
  atMs,
  inUse: false,
  usedAtMs: 0,
  text: `no ${name}`,
});
const allQuiet = (atMs: number): IdleSignal[] => required.map((name) => quiet(name, atMs));
const withOne = (atMs: number, one: Partial<IdleSignal> & { name: SignalName }): IdleSignal[] =>
  allQuiet(atMs).map((signal) =>
    signal.name === one.name ? { ...signal, text: `${one.name} is at work`, ...one } : signal,
  );

/** Assesses check after check, as the idle detector does. */
function verdictsOf(each: { atMs: number; signals: IdleSignal[] }[]): IdleVerdict[] {
  let watch: IdleWatch = noIdleWatch;
  return each.map(({ atMs, signals }) => {
    const judgement = assessIdleness({ policy, required, limits }, watch, signals, atMs);
    ({ watch } = judgement);
    return judgement;
  });
}
const evenly = (count: number, signalsAt: (atMs: number, index: number) => IdleSignal[]) =>
  Array.from({ length: count }, (_, index) => {
    const atMs = startMs + index * checkEveryMs;
    return { atMs, signals: signalsAt(atMs, index) };
  });

describe('an assessment', () => {
  test('warns once of a use whose time the clocks tell a millisecond apart', () => {
    const usedMs = startMs + 10_000;
    const judged = verdictsOf(
      evenly(24, (atMs, index) => {
        const usedAtMs = atMs < usedMs ? 0 : usedMs + Math.max(0, index - 16);
        return withOne(atMs, { name: 'http', usedAtMs });
      }),
    );
    expect(judged.filter(({ action }) => action === 'warn')).toHaveLength(1);
    expect(judged.find(({ action }) => action === 'stop')?.idleSinceMs).toBe(usedMs);
  });

  test('stops no earlier than announced, whenever it looks again', () => {
    const short = { policy: idlePolicy(checkEveryMs / 2), required, limits };
    const begun = assessIdleness(short, noIdleWatch, allQuiet(startMs), startMs);
    expect([begun.action, begun.willStopAtMs]).toEqual(['warn', startMs + checkEveryMs]);
    const sooner = startMs + checkEveryMs - 1;
    const next = assessIdleness(short, begun.watch, allQuiet(sooner), sooner);
    expect([next.action, next.willStopAtMs]).toEqual(['nothing', begun.willStopAtMs]);
    const atMs = startMs + checkEveryMs;
    expect(assessIdleness(short, next.watch, allQuiet(atMs), atMs).action).toBe('stop');
  });

  test('warns with a third of the idle time left, and stops at its end', () => {
    const judged = verdictsOf(evenly(21, allQuiet));
    expect(judged.map(({ state }) => state)).toEqual(judged.map(() => 'idle'));
    const warnedAt = judged.findIndex(({ action }) => action === 'warn');
    expect(warnedAt * checkEveryMs).toBe(7 * MINUTE_MS); // first check with at most 200 s left
    expect(judged[warnedAt]?.willStopAtMs).toBe(startMs + policy.afterMs);
    expect(judged.map(({ action }) => action).filter((fn) => fn !== 'nothing')).toEqual(['warn', 'stop']);
    expect(judged.at(-1)).toMatchObject({ action: 'stop', idleSinceMs: startMs });
  });

  test('gives the first active signal as the reason, whatever the later signals report', () => {
    for (const [index, name] of signalNames.entries()) {
      const signals = allQuiet(startMs).map((signal) =>
        signalNames.indexOf(signal.name) >= index
          ? { ...signal, inUse: true, text: `${signal.name} is at work` }
          : signal,
      );
      expect(verdictsOf([{ atMs: startMs, signals }])[0]).toMatchObject({
        state: 'active',
        because: `${name} is at work`,
      });
    }
  });

  test('is unknown, and names the signal, when a signal is missing, unread, stale or from the future', () => {
    for (const name of required) {
      for (const [kind, change] of Object.entries({
        missing: () => [],
        unread: () => [unreadSignal(name, 'the engine is away')],
        old: (atMs: number) => [quiet(name, atMs - staleMs - 1)],
        'from the future': (atMs: number) => [quiet(name, atMs + staleMs + 1)],
        'old, and in use then': (atMs: number) => [{ ...quiet(name, atMs - staleMs - 1), inUse: true }],
      })) {
        const signals = (atMs: number) => [...allQuiet(atMs).filter((signal) => signal.name !== name), ...change(atMs)];
        const judged = verdictsOf(evenly(60, signals));
        for (const { state, action, because, idleSinceMs } of judged) {
          expect({ state, action, idleSinceMs }, kind).toEqual({
            state: 'unknown',
            action: 'nothing',
            idleSinceMs: null,
          });
          expect(because).toContain(name);
        }
      }
    }
  });

  test('restarts the idle time after an unknown signal', () => {
    const judged = verdictsOf(evenly(40, (atMs, index) => (index === 15 ? allQuiet(atMs).slice(1) : allQuiet(atMs))));
    expect(judged.findIndex(({ action }) => action === 'stop')).toBe(16 + policy.afterMs / checkEveryMs);
  });

  test('restarts the idle time after a gap between checks or a clock step', () => {
    for (const jumpMs of [staleMs + 1, 24 * 60 * MINUTE_MS, -1, -24 * 60 * MINUTE_MS]) {
      const before = evenly(19, allQuiet);
      const fromMs = (before.at(-1)?.atMs ?? 0) + jumpMs;
      const judged = verdictsOf([...before, { atMs: fromMs, signals: allQuiet(fromMs) }]);
      expect(judged.at(-1)).toMatchObject({ state: 'idle', action: 'nothing', idleSinceMs: fromMs });
    }
  });

  test('counts the idle time from the last use, even between two checks', () => {
    const usedAtMs = startMs + 8 * MINUTE_MS;
    const judged = verdictsOf(
      evenly(60, (atMs) => withOne(atMs, { name: 'terminal', usedAtMs: atMs >= usedAtMs ? usedAtMs : 0 })),
    );
    expect(judged[16]).toMatchObject({ state: 'active', because: 'terminal is at work' });
    const stopped = judged.findIndex(({ action }) => action === 'stop');
    expect(stopped * checkEveryMs).toBe(8 * MINUTE_MS + policy.afterMs);
    expect(judged[stopped]?.idleSinceMs).toBe(usedAtMs);
  });

  test('requires no signal that the policy ignores, and no GPU signal without GPUs', () => {
    const lax = idlePolicy(MINUTE_MS, { ignore: ['ssh', 'cpu'] });
    expect(requiredSignals(lax, false)).toEqual(['keepAlive', 'kernel', 'terminal', 'http']);
    const signals = [
      ...requiredSignals(lax, false).map((name) => quiet(name, startMs)),
      { ...quiet('ssh', startMs), inUse: true },
    ];
    const judged = assessIdleness(
      { policy: lax, required: requiredSignals(lax, false), limits },
      noIdleWatch,
      signals,
      startMs,
    );
    expect(judged.state).toBe('idle');
  });
});

const anySignal = (name: SignalName, atMs: number): fc.Arbitrary<IdleSignal | null> =>
  fc.oneof(
    { weight: 30, arbitrary: fc.constant(quiet(name, atMs)) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 2 * staleMs }).map((age) => quiet(name, atMs - age)) },
    { weight: 1, arbitrary: fc.constant({ ...quiet(name, atMs), inUse: true }) },
    {
      weight: 1,
      arbitrary: fc
        .integer({ min: 0, max: 5 * MINUTE_MS })
        .map((age) => ({ ...quiet(name, atMs), usedAtMs: atMs - age })),
    },
    { weight: 1, arbitrary: fc.constantFrom(null, unreadSignal(name, 'away')) },
  );

/** Consecutive checks, mostly regular and quiet, with gaps, clock steps, use and unread signals. */
const anySamples = fc
  .array(
    fc.oneof(
      { weight: 20, arbitrary: fc.constant(checkEveryMs) },
      { weight: 1, arbitrary: fc.integer({ min: -MINUTE_MS, max: 4 * MINUTE_MS }) },
    ),
    {
      minLength: 25,
      maxLength: 80,
    },
  )
  .chain((gaps) => {
    let atMs = startMs;
    return fc.tuple(
      ...gaps.map((gapMs) => {
        atMs += gapMs;
        const nowMs = atMs;
        // Checks are mostly quiet as a whole, or no random sequence would last ten minutes.
        const mixed = fc.tuple(...required.map((name) => anySignal(name, nowMs)));
        return fc
          .oneof({ weight: 15, arbitrary: fc.constant(allQuiet(nowMs)) }, { weight: 1, arbitrary: mixed })
          .map((signals) => ({ atMs: nowMs, signals: signals.flatMap((signal) => signal ?? []) }));
      }),
    );
  });

/**
 * Whether gapless checks, all quiet and known, cover the policy's time before the last check. Uses
 * within a second are one.
 */
function wholeTimeIdle(each: { atMs: number; signals: IdleSignal[] }[]): boolean {
  const nowMs = each.at(-1)?.atMs ?? 0;
  const fromMs = nowMs - policy.afterMs;
  let coveredFromMs = nowMs;
  for (const { atMs, signals } of each.toReversed()) {
    if (coveredFromMs - atMs > staleMs || atMs > coveredFromMs) return false;
    const reported = required.map((name) => signals.find((one) => one.name === name) ?? unreadSignal(name, ''));
    if (!reported.every((signal) => isFresh(signal, atMs, limits) && !signal.inUse && signal.usedAtMs < fromMs + 1_000))
      return false;
    coveredFromMs = atMs;
    if (coveredFromMs <= fromMs) return true;
  }
  return false;
}

describe('every sequence of checks', () => {
  test('stops only after fresh signals were all idle for the whole time', () => {
    let stops = 0;
    fc.assert(
      fc.property(anySamples, (each) => {
        for (const [index, { action, idleSinceMs }] of verdictsOf(each).entries()) {
          if (action !== 'stop') continue;
          stops += 1;
          expect(wholeTimeIdle(each.slice(0, index + 1)), `idle since ${idleSinceMs}`).toBe(true);
          return; // stopped by then
        }
      }),
      { numRuns: 2_000 },
    );
    expect(stops, 'checked stops').toBeGreaterThan(200);
  });

  test('warns at an earlier check of the same idle time before each stop', () => {
    fc.assert(
      fc.property(anySamples, (each) => {
        const judged = verdictsOf(each);
        for (const [index, { action, idleSinceMs }] of judged.entries()) {
          if (action !== 'stop') continue;
          const before = judged.slice(0, index);
          expect(before.some((one) => one.action === 'warn' && one.idleSinceMs === idleSinceMs)).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });

  test('is active exactly with a fresh active signal, and does nothing then', () => {
    fc.assert(
      fc.property(anySamples, (each) => {
        for (const [index, { state, action }] of verdictsOf(each).entries()) {
          const { atMs, signals } = each[index] ?? { atMs: 0, signals: [] };
          const used = signals.some((signal) => isFresh(signal, atMs, limits) && isActive(signal, atMs, limits));
          expect(state === 'active').toBe(used);
          if (used) expect(action).toBe('nothing');
        }
      }),
      { numRuns: 500 },
    );
  });
});
