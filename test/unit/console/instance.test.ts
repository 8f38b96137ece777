import { describe, expect, it } from 'vitest';
import { hostAliasOf, hostEntryOf, sshLineOf } from '../../../console/src/pages/instance/access.ts';
import { hourlyOf, sharesOf, totalOf, type UsagePeriod } from '../../../console/src/pages/instance/cost.ts';
import { summaryOf } from '../../../console/src/pages/instance/figures.ts';
import { aheadOf, comingStopOf, wholeOf } from '../../../console/src/pages/instance/headline.ts';
import { matching, partsOf, plainOf, withLines, MOST_LINES } from '../../../console/src/pages/instance/log-lines.ts';
import { stepsOf } from '../../../console/src/pages/instance/next-steps.ts';
import { fieldOf, hoursOf, minutesOf, timeOf } from '../../../console/src/pages/instance/schedule.ts';
import { readInstanceViewSearch } from '../../../console/src/pages/instance/search.ts';
import { freeTerminalName } from '../../../console/src/pages/instance/terminal-names.ts';
import { diagnoses } from '../../../src/domain/compute/instance-states.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

describe('the address of an instance', () => {
  it('keeps what the page understands, and leaves out defaults and the rest', () => {
    expect(readInstanceViewSearch({ tab: 'logs', log: 'init', find: 'error', open: true })).toEqual({
      tab: 'logs',
      log: 'init',
      find: 'error',
      open: true,
    });
    expect(
      readInstanceViewSearch({ tab: 'overview', range: '1h', log: 'console', find: '', open: 'yes', terminal: 'main' }),
    ).toEqual({});
    expect(readInstanceViewSearch({ tab: 'nowhere', range: '2h', terminal: '../x', loopback: '80' })).toEqual({});
    expect(readInstanceViewSearch({ loopback: 65_536 })).toEqual({});
    expect(readInstanceViewSearch({ loopback: 9000 })).toEqual({ loopback: 9000 });
  });
});

const period = (over: Partial<UsagePeriod>): UsagePeriod => ({
  periodId: '1',
  name: 'work',
  meter: 'compute',
  state: 'charged',
  regionId: 'here',
  price: 0.5,
  quantity: 1,
  fromUnixMs: 0,
  untilUnixMs: HOUR_MS,
  freeMs: 0,
  amount: 0.5,
  transitions: { opened: { seq: 1 } },
  ...over,
});

describe('the cost of an instance', () => {
  it('is metered use and payments, less refunds, without digits of binary sums', () => {
    expect(totalOf([period({ amount: 0.1 }), period({ amount: 0.2 })], [])).toBe(0.3);
    expect(totalOf([], [{ amount: -10 }, { amount: 4 }])).toBe(6);
  });

  it('counts waiting, starting and gaps as free time, and kept disks not at all', () => {
    const periods = [
      period({ state: 'starting', amount: 0, untilUnixMs: MINUTE_MS }),
      period({ freeMs: 10 * MINUTE_MS }),
      period({ meter: 'disks' }),
    ];
    expect(sharesOf(periods, 0)).toEqual({ chargedMs: 50 * MINUTE_MS, paidAheadMs: 0, freeMs: 11 * MINUTE_MS });
  });

  it('sums what the open periods cost an hour: storage has prices for 30 days', () => {
    const open = { untilUnixMs: null };
    expect(hourlyOf([period(open), period({}), period({ ...open, state: 'paidAhead' })])).toBe(0.5);
    expect(hourlyOf([period({ ...open, meter: 'disks', price: 0.72, quantity: 10 })])).toBeCloseTo(0.01);
  });
});

describe('the headline', () => {
  const hourly = { autoRenew: false, paidTime: null };

  it('names the earliest stop and why', () => {
    const ends = { stopAtUnixMs: 900, endsAtUnixMs: 900 };
    expect(comingStopOf(ends, { willStopAtUnixMs: 500 }, hourly)).toEqual({ atMs: 500, cause: 'idle' });
    expect(comingStopOf(ends, { willStopAtUnixMs: null }, hourly)).toEqual({ atMs: 900, cause: 'stopAt' });
    expect(comingStopOf({ stopAtUnixMs: null, endsAtUnixMs: 700 }, undefined, hourly)).toEqual({
      atMs: 700,
      cause: 'longestRun',
    });
    expect(comingStopOf(undefined, undefined, hourly)).toBeNull();
  });

  it('counts the end of paid time only where it is not bought again', () => {
    const paidTime = { units: 1, price: 1, startsAtUnixMs: 0, endsAtUnixMs: 300 };
    expect(comingStopOf(undefined, undefined, { autoRenew: false, paidTime })?.cause).toBe('paidTime');
    expect(comingStopOf(undefined, undefined, { autoRenew: true, paidTime })).toBeNull();
  });

  it('reads the place in the queue', () => {
    expect(aheadOf('waiting for capacity for gpu.8; instances ahead in the queue: 3. The region …')).toBe(3);
    expect(aheadOf('region default is drained')).toBeNull();
  });

  it('does not change each second after the first minute', () => {
    expect(wholeOf(200)).toBe(1_000);
    expect(wholeOf(59_000)).toBe(59_000);
    expect(wholeOf(119_000)).toBe(MINUTE_MS);
  });
});

describe('next steps', () => {
  it('offer no act that the status forbids', () => {
    expect(stepsOf('CrashLoop', ['start'])).toEqual([
      { kind: 'tab', tab: 'logs' },
      { kind: 'act', act: 'start' },
    ]);
    expect(stepsOf('CrashLoop', [])).toEqual([{ kind: 'tab', tab: 'logs' }]);
  });

  it('lead on from every reason that does not pass by itself', () => {
    const passing = ['', 'EngineUnreachable', 'VolumePending', 'DiskInUse', 'PortTaken', 'Evicted', 'StopDelayed'];
    const asking = ['AccountDisabled'];
    const without = Object.keys(diagnoses).filter((reason) => stepsOf(reason, ['start', 'restart']).length === 0);
    expect(without.toSorted()).toEqual([...passing, ...asking].toSorted());
  });
});

describe('lines of a log', () => {
  it('lose colours, titles and what a carriage return overwrites', () => {
    expect(plainOf('\u001B[31mred\u001B[0m')).toBe('red');
    expect(plainOf('\u001B]0;title\u0007text')).toBe('text');
    expect(plainOf(' 10 %\r 20 %\r')).toBe(' 20 %');
    expect(plainOf('a\tb')).toBe('a\tb');
  });

  it('are found in any letter case, and the hits are marked', () => {
    const line = (text: string, key: number) => ({ key, atUnixMs: null, text, isNote: false });
    expect(matching([line('An Error', 0), line('fine', 1)], 'error').map(({ key }) => key)).toEqual([0]);
    expect(partsOf('An Error, an error', 'error')).toEqual(['An ', 'Error', ', an ', 'error', '']);
    expect(partsOf('text', '')).toEqual(['text']);
  });

  it('are kept up to a number, the newest', () => {
    const many = Array.from({ length: MOST_LINES }, (_, key) => ({ key, atUnixMs: null, text: '', isNote: false }));
    const kept = withLines(many, [{ key: MOST_LINES, atUnixMs: null, text: '', isNote: false }]);
    expect(kept).toHaveLength(MOST_LINES);
    expect(kept.at(-1)?.key).toBe(MOST_LINES);
    expect(kept[0]?.key).toBe(1);
  });
});

describe('figures', () => {
  it('leave gaps out of the mean, and have none without values', () => {
    const line = { name: 'cpu', mean: [1, null, 3], max: [2, null, 5], now: null } as const;
    expect(summaryOf({ ...line, mean: [...line.mean], max: [...line.max] })).toEqual({ now: null, mean: 2, max: 5 });
    expect(summaryOf({ name: 'cpu', mean: [null], max: [null], now: 1 })).toEqual({ now: 1, mean: null, max: null });
  });
});

describe('forms', () => {
  it('show a time as the field takes it, and read it back', () => {
    const atMs = new Date(2026, 10, 26, 18, 5).getTime();
    expect(fieldOf(atMs)).toBe('2026-11-26T18:05');
    expect(timeOf(fieldOf(atMs))).toBe(atMs);
    expect(timeOf('')).toBeNull();
  });

  it('take hours for minutes', () => {
    expect(minutesOf(1.5)).toBe(90);
    expect(minutesOf('')).toBeNull();
    expect(minutesOf(0)).toBeNull();
    expect(hoursOf(90)).toBe(1.5);
  });

  it('choose a name that no terminal has', () => {
    expect(freeTerminalName([])).toBe('main');
    expect(freeTerminalName(['main', 'shell-2'])).toBe('shell-3');
  });
});

describe('ssh', () => {
  it('has a line and an entry that editors show', () => {
    const address = { host: 'gpu.example.org', port: 31_615 };
    expect(sshLineOf(address)).toBe('ssh -p 31615 root@gpu.example.org');
    expect(hostEntryOf('My Work!', address)).toBe(
      'Host my-work\n  HostName gpu.example.org\n  Port 31615\n  User root',
    );
    expect(hostAliasOf('!!!')).toBe('instance');
  });
});
