/** Dates of charges in six zones, against the calculator's calendar, without `Date` and `Intl`. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  faultOfOffPeak,
  isOffPeak,
  nextWindow,
  weekdays,
  type OffPeakWindow,
} from '../../../src/domain/regions/off-peak.ts';
import { atLevel } from '../../fixtures/level.ts';
import { isInWindow, nextEdge, type DailyWindow } from '../../oracle/off-peak-hours.ts';
import { changesOf, DAY, HOUR, MINUTE, offsetAt, wallOf, instantOf, zones } from '../../oracle/zones.ts';

const numRuns = atLevel({ short: 500, long: 200_000 });
const years = Array.from({ length: 12 }, (_, at) => 2025 + at);
const zone = fc.constantFrom(...zones);

/** Instants near a change to or from summer time, at the end of February, or anywhere. */
const instant = fc
  .tuple(zone, fc.constantFrom(...years), fc.nat(3), fc.nat({ max: 2 * DAY }))
  .map(([name, year, kind, ms]) => {
    const near = kind < 2 ? changesOf(name, year)[kind] : undefined;
    const leap = Date.UTC(year, 1, 28);
    return { zone: name, ms: (near ?? (kind === 3 ? leap : Date.UTC(year, 0, 1) + (ms % 365) * DAY)) - DAY + ms };
  });

test('the calculator knows the offsets of its zones', () => {
  for (const name of zones) {
    const format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
    const known = (ms: number): number => {
      const text = format.formatToParts(ms).find(({ type }) => type === 'timeZoneName')?.value ?? '';
      const [, sign, hours = 0, minutes = 0] = /GMT([+-])(\d\d):(\d\d)/.exec(text) ?? [];
      return (sign === '-' ? -1 : 1) * (Number(hours) * HOUR + Number(minutes) * MINUTE);
    };
    for (const year of years)
      for (const at of [...changesOf(name, year), Date.UTC(year, 0, 15), Date.UTC(year, 6, 15)])
        for (const ms of [at - 1, at]) expect([name, ms, offsetAt(name, ms)]).toEqual([name, ms, known(ms)]);
  }
});

test('the calculator returns each wall time to its first instant', () => {
  fc.assert(
    fc.property(instant, ({ zone: name, ms }) => {
      const wall = wallOf(name, ms);
      const first = instantOf(name, wall);
      expect(first).toBeLessThanOrEqual(ms);
      expect(wallOf(name, first)).toEqual(wall);
    }),
    { numRuns },
  );
});

const window = fc.record({
  days: fc.subarray([0, 1, 2, 3, 4, 5, 6], { minLength: 1 }),
  from: fc.nat(1439),
  to: fc.nat(1440),
});
const text = (minute: number) =>
  `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;
const named = ({ days, from, to }: Required<DailyWindow>): OffPeakWindow => ({
  days: days.flatMap((day) => weekdays[(day + 6) % 7] ?? []),
  start: text(from),
  end: text(to),
});

test('off-peak windows are open at the times that the clocks of the zone show', () => {
  fc.assert(
    fc.property(
      instant,
      fc.array(window, { minLength: 1, maxLength: 3 }),
      fc.boolean(),
      ({ zone: name, ms }, windows, atEdge) => {
        const apart = windows.filter(({ from, to }) => from !== to);
        const edge = Math.floor(ms / HOUR) * HOUR + ((apart[0]?.from ?? 0) % 60) * MINUTE;
        const moments = atEdge ? [edge - 1, edge] : [ms];
        const offPeak = { timeZone: name, windows: apart.map(named) };
        for (const at of moments) expect(isOffPeak(offPeak, at)).toBe(isInWindow(name, apart, at));
      },
    ),
    { numRuns },
  );
});

test('off-peak windows open and close at the next time that the clocks show', () => {
  fc.assert(
    fc.property(instant, fc.array(window, { minLength: 1, maxLength: 2 }), ({ zone: name, ms }, windows) => {
      const offPeak = { timeZone: name, windows: windows.map(named) };
      fc.pre(faultOfOffPeak(offPeak) === null);
      const edge = nextEdge(name, windows, ms);
      if (edge === undefined) return;
      const next = nextWindow(offPeak, ms);
      expect(isInWindow(name, windows, ms) ? next?.closesAtMs : next?.opensAtMs).toBe(edge);
    }),
    { numRuns: atLevel({ short: 40, long: 5_000 }) },
  );
});
