/** Frequent queries on growing tables read only the rows they return. */
import { expect, test } from 'vitest';
import {
  chargesSoFar,
  moneyIn,
  nextPeriods,
  otherEntries,
  purchasesSoFar,
  resourceIds,
  timeIn,
} from '../../../src/store/tables/report-rows.ts';
import { isInBooks } from '../../../src/store/tables/book-pages.ts';
import { disksOfRegion } from '../../../src/store/tables/disks.ts';
import {
  idleWatchedIds,
  instanceRowsOfRegion,
  runningOfDisabled,
  settledWithRootDisk,
} from '../../../src/store/tables/instance-queries.ts';
import { pageOfAll } from '../../../src/store/tables/operator-lists.ts';
import { capacityHolders } from '../../../src/store/tables/fleet.ts';
import { nextPriceAtMs, scheduledPrices } from '../../../src/store/tables/price-changes.ts';
import { reachedBudgetsOf, spentBetween } from '../../../src/store/tables/budgets.ts';
import {
  chargedCostsOf,
  chargedPeriodsAfter,
  limitedAccounts,
  listedWith,
} from '../../../src/store/tables/money-steps.ts';
import { imageRefsAmong } from '../../../src/store/tables/orphans.ts';
import { filteredInstancePage } from '../../../src/store/tables/instances.ts';
import { spotHolders } from '../../../src/store/tables/tide-and-spot.ts';
import type { Db } from '../../../src/store/store.ts';
import { onEngine } from '../../fixtures/store.ts';
import { howSqliteReads } from './query-plan.ts';

const month = { fromMs: 0, untilMs: 1_000 };
const allClosed = { afterMs: month.fromMs, upToMs: Number.MAX_SAFE_INTEGER };

const questions: [name: string, ask: (db: Db) => Promise<unknown>, by: RegExp[]][] = [
  [
    'images that explain what a sweep found',
    (db) => imageRefsAmong(db, { refs: ['a', 'b'], instanceIds: ['c', 'd'] }),
    [/^SEARCH image USING .*INDEX image_ref /, /^SEARCH image USING .*INDEX image_from /],
  ],
  [
    'instances whose container has the only root disk',
    (db) => settledWithRootDisk(db, 'a'),
    [/^SEARCH instance USING INDEX instance_keptRootDisk \(regionId=\?\)/],
  ],
  [
    'spot instances that hold capacity',
    (db) => spotHolders(db, 'a'),
    [/^SEARCH instance USING INDEX instance_spot \(spotRegionId=\? AND holdsCapacity=\?\)/],
  ],
  [
    'scheduled prices that are due',
    (db) => nextPriceAtMs(db),
    [/^SCAN priceChange USING COVERING INDEX price_change_scheduled/],
  ],
  [
    'scheduled prices of a type',
    (db) => scheduledPrices(db, { regionId: 'a', typeId: 'b' }),
    [/^SEARCH priceChange USING INDEX price_change_type \(typeId=\?\)/],
  ],
  [
    'a page of the disks of a region',
    (db) => disksOfRegion(db, 'a', 'b', 500),
    [/^SEARCH disk USING INDEX disk_region /],
  ],
  [
    'instances of a disabled account',
    (db) => runningOfDisabled(db, 'a'),
    [/^SEARCH account USING .*INDEX/, /^SEARCH instance USING INDEX instance_list \(ownerId=\?\)/],
  ],
  [
    'accounts whose money ends, and their instances',
    async (db) => [await limitedAccounts(db), await listedWith(db, 'a', 'running')],
    [
      /^SCAN account USING COVERING INDEX account_money_step/,
      /^SEARCH instance USING INDEX instance_list \(ownerId=\? AND listed=\?\)/,
    ],
  ],
  [
    'what is paid for, of all accounts and of one',
    async (db) => [await chargedPeriodsAfter(db, { accountId: 'a', id: 5 }, 100), await chargedCostsOf(db, 'a')],
    [
      /^SEARCH usagePeriod USING INDEX usage_period_current \(accountId>\?\)/,
      /^SEARCH usagePeriod USING INDEX usage_period_current \(accountId=\?\)/,
    ],
  ],
  [
    'what a budget has spent, and whether one is reached',
    async (db) => [
      await spentBetween(db, { accountId: 'a', labelKey: 'k', labelValue: 'v' }, { fromMs: 1, untilMs: 2 }),
      await reachedBudgetsOf(db, 'a'),
    ],
    [
      /^SEARCH entry USING INDEX entry_account \(accountId=\? AND atMs>\? AND atMs<\?\)/,
      /^LIST SUBQUERY/,
      /^SEARCH label USING COVERING INDEX label_find/,
      /^CREATE BLOOM FILTER/,
      /^SEARCH budget USING INDEX budget_reached \(accountId=\?\)/,
    ],
  ],
  [
    'a page of the instances of a region',
    (db) => instanceRowsOfRegion(db, 'a', 'b', 50),
    [/^SEARCH instance USING INDEX sqlite_autoindex_instance_1 \(id>\?\)/],
  ],
  [
    'instances that match a filter, and their number',
    (db) => filteredInstancePage(db, 'a', { name: 'b', withoutReleased: true }, { offset: 0, limit: 10 }),
    [
      /^SEARCH instance USING COVERING INDEX instance_list \(ownerId=\? AND listed=\?\)/,
      /^SEARCH instance USING INDEX instance_list \(ownerId=\? AND listed=\?\)/,
    ],
  ],
  [
    'a sorted page of instances from the index of the list, and the rows of the page alone',
    (db) => filteredInstancePage(db, 'a', { sort: { by: 'price', order: 'asc' } }, { offset: 9_900, limit: 100 }),
    [
      /^SEARCH instance USING (?:COVERING )?INDEX instance_list \(ownerId=\? AND listed=\?\)/,
      /^SEARCH instance USING INDEX sqlite_autoindex_instance_1 \(id=\?\)/,
      /^LIST SUBQUERY/,
      /^SEARCH instance USING COVERING INDEX instance_list \(ownerId=\? AND listed=\?\)/,
      /^USE TEMP B-TREE FOR ORDER BY/,
      /^USE TEMP B-TREE FOR ORDER BY/,
    ],
  ],
  [
    'a sorted page of the volumes of all accounts',
    (db) => pageOfAll(db, 'volume', { sort: { by: 'size', order: 'desc' } }, { offset: 10, limit: 10 }),
    [
      /^SCAN volume USING COVERING INDEX volume_newest/,
      /^SEARCH volume USING INDEX sqlite_autoindex_volume_1 \(id=\?\)/,
      /^LIST SUBQUERY/,
      /^SCAN volume USING COVERING INDEX volume_newest/,
      /^USE TEMP B-TREE FOR ORDER BY/,
      /^USE TEMP B-TREE FOR ORDER BY/,
    ],
  ],
  [
    'who holds the capacity of a region',
    (db) => capacityHolders(db, 'a'),
    [/^SEARCH instance USING INDEX instance_holders \(regionId=\?\)/],
  ],
  [
    'what instances cost so far',
    async (db) => {
      await chargesSoFar(db, { subjectIds: ['a', 'b'] });
      await chargesSoFar(db, { subjectIds: ['a'], ids: { after: 5, upTo: 9 } });
      await purchasesSoFar(db, ['a', 'b']);
    },
    [
      /^SEARCH usagePeriod USING INDEX usage_period_subject \(subjectId=\?\)/,
      /^SEARCH usagePeriod USING INDEX usage_period_subject \(subjectId=\? AND id>\? AND id<\?\)/,
      /^SEARCH entry USING INDEX entry_subject \(subjectId=\?\)/,
    ],
  ],
  [
    'whose books name a resource',
    (db) => isInBooks(db, 'a', 'b'),
    [
      /^SCAN CONSTANT ROW/,
      /^SCALAR SUBQUERY/,
      /^SEARCH usagePeriod USING INDEX usage_period_subject \(subjectId=\?\)/,
      /^SCALAR SUBQUERY/,
      /^SEARCH entry USING INDEX entry_subject \(subjectId=\?\)/,
    ],
  ],
  [
    'a part of the periods of a resource, and what it was charged',
    async (db) => {
      const part = { by: ['subjectId', 'priceMicros'], subjectIds: ['b'], ids: { after: 5, upTo: 9 } } as const;
      await nextPeriods(db, ['b'], 5, 4);
      await nextPeriods(db, ['b', 'c'], 0, 4);
      await timeIn(db, 'a', [month], part, allClosed);
      await moneyIn(db, 'a', month, { ...part, isMetered: true });
    },
    [
      /^CO-ROUTINE next/,
      /^SEARCH usagePeriod USING COVERING INDEX usage_period_subject \(subjectId=\? AND id>\?\)/,
      /^SCAN next/,
      /^CO-ROUTINE next/,
      /^SEARCH usagePeriod USING COVERING INDEX usage_period_subject \(subjectId=\? AND id>\?\)/,
      /^SCAN next/,
      /^MATERIALIZE span/,
      /^SCAN CONSTANT ROW/,
      /^SEARCH period USING INDEX usage_period_subject \(subjectId=\? AND id>\? AND id<\?\)/,
      /^SCAN span/,
      /GROUP BY$/,
      /^SEARCH entry USING INDEX entry_hour \(periodId=\? AND hourMs>\? AND hourMs<\?\)/,
      /^LIST SUBQUERY/,
      /^SEARCH period USING INDEX usage_period_subject \(subjectId=\? AND id>\? AND id<\?\)/,
      /^SEARCH period USING INTEGER PRIMARY KEY/,
      /GROUP BY$/,
    ],
  ],
  [
    'a page of the instances of all accounts, and their number',
    (db) => pageOfAll(db, 'instance', {}, { offset: 10, limit: 10 }),
    [
      /^SCAN instance USING COVERING INDEX instance_newest/,
      /^SEARCH instance USING INDEX sqlite_autoindex_instance_1 \(id=\?\)/,
      /^LIST SUBQUERY/,
      /^SCAN instance USING COVERING INDEX instance_newest/,
      /^USE TEMP B-TREE FOR ORDER BY/,
    ],
  ],
  [
    'instances to watch for idleness',
    (db) => idleWatchedIds(db, 'a', 500),
    [/^SEARCH instance USING .*INDEX instance_idle /],
  ],
  [
    'metered use of an account in a month',
    (db) => moneyIn(db, 'a', month, { by: [], isMetered: true }),
    [/^SEARCH entry USING COVERING INDEX entry_account \(accountId=\? AND atMs>\? AND atMs<\?\)/, /GROUP BY$/],
  ],
  [
    'time of the closed periods of resources in a month',
    (db) => timeIn(db, 'a', [month], { by: ['subjectId', 'priceMicros'], subjectIds: ['b', 'c'] }, allClosed),
    [
      /^MATERIALIZE span/,
      /^SCAN CONSTANT ROW/,
      /^SEARCH period USING COVERING INDEX usage_period_resource \(accountId=\? AND subjectId=\?\)/,
      /^SCAN span/,
      /GROUP BY$/,
    ],
  ],
  [
    'entries of an account that are not metered use',
    (db) => otherEntries(db, 'a', month, 10),
    [/^SEARCH entry USING INDEX entry_other \(accountId=\? AND atMs>\? AND atMs<\?\)/],
  ],
];

onEngine('sqlite', 'a question of a timer', (open) => {
  test.each(questions)('finds %s by an index', async (_name, ask, by) => {
    const lines = await howSqliteReads(await open(), ask);
    expect(lines).toEqual(by.map((words) => expect.stringMatching(words)));
  });

  test('reads of each resource of a month its own periods alone', async () => {
    const lines = await howSqliteReads(await open(), (db) => resourceIds(db, 'a', month, { after: '', limit: 50 }));
    const ofPeriods = lines.filter((line) => line.startsWith('SEARCH usagePeriod'));
    expect(ofPeriods).toContainEqual(expect.stringMatching(/usage_period_resource \(accountId=\? AND subjectId=\?\)/));
    expect(ofPeriods).not.toContainEqual(expect.stringMatching(/usage_period_closed/));
  });
});
