/**
 * Decisions of the operators' pages: findings, disk use, prices to come, and what addresses hold.
 */
import { describe, expect, it, test } from 'vitest';
import { accountIdOf } from '../../../console/src/pages/operator/audit/account-id.ts';
import { localTimeOf, timeOfLocal } from '../../../console/src/pages/operator/audit/local-time.ts';
import {
  engineKinds,
  firstSettingsOf,
  settingsOf,
} from '../../../console/src/pages/operator/catalog/engine-settings.ts';
import {
  differs,
  pricesOf,
  scaledBy,
  startOf,
  tomorrowOf,
} from '../../../console/src/pages/operator/catalog/price-plan.ts';
import { accountsByUse, type DiskItem } from '../../../console/src/pages/operator/disk-use.ts';
import { linesOfRanges, rangesOf } from '../../../console/src/pages/operator/egress-lines.ts';
import { chartsOfRegion } from '../../../console/src/pages/operator/fleet/use-charts.ts';
import { findingsOf, type HealthFacts } from '../../../console/src/pages/operator/health/findings.ts';
import {
  readAccountsSearch,
  readAuditSearch,
  readCatalogSearch,
  readFleetSearch,
} from '../../../console/src/pages/operator/search.ts';
import { regionSettings } from '../../../src/contract/regions/region-admin.ts';

const nowMs = Date.UTC(2026, 10, 26, 12);
const resource = { total: 8, promised: 4, free: 4, used: null };
const region: HealthFacts['regions'][number] = {
  regionId: 'r',
  regionName: 'north',
  retired: false,
  engine: { name: 'docker', answers: true, text: 'docker answers' },
  drain: null,
  holding: 1,
  waiting: 0,
  cpuCores: resource,
  memoryGB: resource,
  gpuNum: resource,
  nodePorts: resource,
  largestHosts: [],
  presentHosts: null,
  gpus: [],
  pools: [],
  types: [],
};
const task: HealthFacts['tasks'][number] = {
  name: 'sweep',
  intervalMs: 1_000,
  running: false,
  lastStartedAt: nowMs - 1_000,
  lastDurationMs: 5,
  lastError: null,
  runs: 9,
  failures: 0,
};
const well: HealthFacts = {
  ready: { state: 'ok', text: 'docker answers' },
  regions: [region],
  tasks: [task],
  due: [],
  heldDisks: [],
  orphans: [],
  webhooks: [],
  priceChanges: [],
  deleting: [],
  nowMs,
};
const pool = {
  name: 'default',
  totalGB: 100,
  promisedGB: 10,
  freeGB: 90,
  usedGB: 5,
  fileSystemGB: null,
  fileSystemFreeGB: null,
};
const kindsOf = (over: Partial<HealthFacts>): string[] => findingsOf({ ...well, ...over }).map(({ kind }) => kind);

test('a healthy installation has no findings', () => {
  expect(kindsOf({})).toEqual([]);
});

test('findings come worst first', () => {
  const facts: Partial<HealthFacts> = {
    regions: [
      { ...region, waiting: 2 },
      { ...region, regionId: 's', engine: { name: 'docker', answers: false, text: 'no route' } },
    ],
    tasks: [{ ...task, lastStartedAt: nowMs - 3_600_000 }],
  };
  expect(findingsOf({ ...well, ...facts }).map(({ severity }) => severity)).toEqual(['bad', 'warns', 'tells']);
});

test.each<[string, Partial<HealthFacts>]>([
  ['notReady', { ready: { state: 'notReady', text: 'no database' } }],
  ['degraded', { ready: { state: 'degraded', text: 'the data folder is full' } }],
  ['engineSilent', { regions: [{ ...region, engine: { name: 'docker', answers: false, text: 'gone' } }] }],
  ['taskFails', { tasks: [{ ...task, lastError: 'disk full', failures: 3 }] }],
  [
    'taskFails',
    { due: [{ kind: 'stop', count: 1, nextAtMs: 1, failing: [{ subjectId: 'a', failures: 3, error: 'full' }] }] },
  ],
  ['taskLate', { tasks: [{ ...task, lastStartedAt: nowMs - 3_600_000 }] }],
  ['poolFull', { regions: [{ ...region, pools: [{ ...pool, promisedGB: 99 }] }] }],
  ['fileSystemFull', { regions: [{ ...region, pools: [{ ...pool, fileSystemGB: 100, fileSystemFreeGB: 1 }] }] }],
  ['drained', { regions: [{ ...region, drain: { reason: 'disks', sinceUnixMs: 1, stopsAtUnixMs: null } }] }],
  ['waiting', { regions: [{ ...region, waiting: 1 }] }],
])('finds %s', (kind, over) => {
  expect(kindsOf(over)).toEqual([kind]);
});

test('a retired region may be silent, and a running or fresh task is not late', () => {
  const silent = { ...region, retired: true, engine: { name: 'docker', answers: false, text: 'gone' } };
  expect(kindsOf({ regions: [silent] })).toEqual([]);
  expect(kindsOf({ tasks: [{ ...task, running: true, lastStartedAt: 0 }] })).toEqual([]);
  expect(kindsOf({ tasks: [{ ...task, lastStartedAt: null }] })).toEqual([]);
});

test('only prices of the next days are findings', () => {
  const change = (days: number): HealthFacts['priceChanges'][number] => ({
    fromUnixMs: nowMs + days * 86_400_000,
    regionId: 'r',
    instanceTypeId: 't',
    prices: null,
    storagePrices: null,
    scheduled: true,
    byAccountId: null,
  });
  expect(kindsOf({ priceChanges: [change(10)] })).toEqual([]);
  expect(findingsOf({ ...well, priceChanges: [change(2), change(1), change(10)] })).toMatchObject([
    { kind: 'priceDue', count: 2, atMs: nowMs + 86_400_000 },
  ]);
});

test('accounts are sorted by what they wrote, with their items', () => {
  const item = (accountId: string, usedGB: number): DiskItem => ({
    id: `${accountId} ${usedGB}`,
    kind: 'volume',
    name: 'data',
    accountId,
    username: accountId,
    usedGB,
    sizeGB: 100,
    status: 'Bound',
  });
  const sums = accountsByUse([item('a', 5), item('b', 4), item('b', 9)]);
  expect(sums.map(({ accountId, usedGB }) => [accountId, usedGB])).toEqual([
    ['b', 13],
    ['a', 5],
  ]);
  expect(sums[0]?.items.map(({ usedGB }) => usedGB)).toEqual([9, 4]);
  expect(sums[0]?.stoppable).toEqual([]);
});

const prices = { tidePerHour: 0.01, perHour: 0.02, perDay: 0.43, perWeek: 2.7, perMonth: 10.1 };

test('prices are scaled to whole micro-dollars', () => {
  expect(scaledBy(prices, 10)).toEqual({
    tidePerHour: 0.011,
    perHour: 0.022,
    perDay: 0.473,
    perWeek: 2.97,
    perMonth: 11.11,
  });
  expect(differs(scaledBy(prices, 0), prices)).toBe(false);
});

test('an empty or negative price is none', () => {
  expect(pricesOf({ ...prices, perDay: '' })).toBeNull();
  expect(pricesOf({ ...prices, perDay: -1 })).toBeNull();
  expect(pricesOf({ ...prices, perDay: '0.5' })).toEqual({ ...prices, perDay: 0.5 });
});

test('tomorrow begins at midnight, and a later time must be ahead', () => {
  const midnight = new Date(tomorrowOf(nowMs));
  expect([midnight.getHours(), midnight.getMinutes()]).toEqual([0, 0]);
  expect(midnight.getTime()).toBeGreaterThan(nowMs);
  expect(midnight.getTime() - nowMs).toBeLessThanOrEqual(25 * 3_600_000);
  expect(startOf('now', '', nowMs)).toBeUndefined();
  expect(startOf('later', '', nowMs)).toBeNull();
  expect(startOf('later', '2020-01-01T00:00', nowMs)).toBeNull();
  expect(startOf('later', '2027-01-01T00:00', nowMs)).toBe(new Date('2027-01-01T00:00').getTime());
});

test('ranges are read as they are written', () => {
  const ranges = [
    { cidr: '203.0.113.0/24' },
    { cidr: '198.51.100.7', protocol: 'tcp' as const, ports: ['443', '8000-8100'] },
    { cidr: '192.0.2.0/24', protocol: 'udp' as const },
  ];
  expect(rangesOf(linesOfRanges(ranges))).toEqual(ranges);
  expect(rangesOf('\n  \n')).toEqual([]);
});

test.each(engineKinds)('the first settings of %s are what the API takes', (kind) => {
  expect(() => regionSettings.parse(settingsOf(firstSettingsOf(kind)))).not.toThrow();
});

test('settings that are no object are refused before they are sent', () => {
  for (const text of ['', '{', '5', 'null', '[]']) expect(settingsOf(text)).toBeNull();
});

test('times of fields are those of the browser', () => {
  expect(timeOfLocal(localTimeOf(nowMs))).toBe(nowMs);
  expect(timeOfLocal('')).toBeUndefined();
});

test('addresses hold what is open, and drop what they do not know', () => {
  expect(readFleetSearch({ tab: 'disks', q: 'llm', status: 'Running' })).toEqual({
    tab: 'disks',
    q: 'llm',
    status: 'Running',
  });
  expect(readFleetSearch({ tab: 'hosts', q: '', status: 'x' })).toEqual({});
  expect(readAccountsSearch({ q: 'a', role: 'admin', state: 'disabled', by: 'disk' })).toEqual({
    q: 'a',
    role: 'admin',
    state: 'disabled',
    by: 'disk',
  });
  expect(readAccountsSearch({ role: 'root', state: 1, by: 'age' })).toEqual({});
  expect(readCatalogSearch({ tab: 'types', retired: 'yes', type: 't' })).toEqual({ type: 't' });
  expect(readCatalogSearch({ tab: 'prices', retired: true })).toEqual({ tab: 'prices', retired: true });
  expect(readAuditSearch({ account: 'a', from: 5, to: -1, open: 7 })).toEqual({ account: 'a', from: 5, open: 7 });
});

test('finds the account of a filter by its whole name, or takes an ID', () => {
  const accounts = [
    { accountId: '1', username: 'anna-2' },
    { accountId: '2', username: 'anna' },
  ];
  expect(accountIdOf('anna', accounts)).toBe('2');
  expect(accountIdOf('ann', accounts)).toBeNull();
  const id = '0b8e4f6a-3c52-4d0c-9a3e-5f1f6f0a7c11';
  expect(accountIdOf(id, [])).toBe(id);
});

describe('the charts of a region', () => {
  const DAY = 86_400_000;
  const none = { total: 0, promised: 0, used: 0 };
  const step = (atUnixMs: number, gpuNum: { total: number; promised: number; used: number | null }) => ({
    atUnixMs,
    gpuNum,
    cpuCores: { total: 10, promised: 5, used: null },
    memoryGB: none,
    diskGB: none,
  });
  const history = {
    stepSeconds: 21_600,
    steps: [step(0, { total: 4, promised: 1, used: 2 }), step(DAY / 2, { total: 4, promised: 3, used: null })],
  };
  const charts = chartsOfRegion(history, { fromMs: 1, toMs: DAY });

  it('leave a gap where nothing is stored, and leave out what the region never had', () => {
    expect(charts.map(({ name }) => name)).toEqual(['gpuNum', 'cpuCores']);
    expect(charts[0]?.facts).toMatchObject({
      times: [0, 21_600, 43_200, 64_800],
      lines: [
        [1, null, 3, null],
        [2, null, null, null],
      ],
      limits: [4, null, 4, null],
      fromS: 0.001,
      toS: 86_400,
    });
  });

  it('say the mean and the most of the capacity', () => {
    expect(charts[0]).toMatchObject({ promised: { mean: 0.5, most: 0.75 }, used: 0.5, now: { promised: 3 } });
    expect(charts[1]?.used).toBeNull();
  });
});
