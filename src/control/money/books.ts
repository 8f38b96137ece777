/** The books of an account, read: entries of the ledger, and usage periods. */
import { Refusal } from '../../domain/kernel/refusal.ts';
import {
  entryPage,
  eventKinds,
  isInBooks,
  periodPage,
  periodsById,
  type EntryFilter,
  type PeriodFilter,
} from '../../store/tables/book-pages.ts';
import type { EntryRow } from '../../store/tables/ledger.ts';
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import type { ReportDeps } from './report.ts';
import { accountIdOf } from '../access/ports.ts';
import type { Caller, Pager } from '../kernel/ports.ts';

/** A filter's count stops here. */
const MAX_TOTAL = 10_000;

interface Transition {
  seq: number;
  /** Absent: the event was deleted. */
  kind?: string;
}

export interface Transitions {
  opened: Transition;
  closed?: Transition;
}

export interface Books {
  entries(
    caller: Caller,
    filter: EntryFilter,
    pager: Pager,
  ): Promise<{ entries: (EntryRow & { transitions?: Transitions })[]; totalEntries: number }>;
  /** Entries of the account with this name or email address, for administrators. */
  entriesFor(username: string, filter: EntryFilter, pager: Pager): ReturnType<Books['entries']>;
  periods(
    caller: Caller,
    filter: PeriodFilter,
    pager: Pager,
  ): Promise<{ periods: (PeriodRow & { transitions: Transitions })[]; totalEntries: number }>;
}

export function makeBooks({ store }: ReportDeps): Books {
  const transitionsOf = async (
    accountId: string,
    periods: readonly PeriodRow[],
  ): Promise<(period: PeriodRow) => Transitions> => {
    const seqs = periods.flatMap(({ openSeq, closeSeq }) => (closeSeq === null ? [openSeq] : [openSeq, closeSeq]));
    const kinds = await eventKinds(store.read, accountId, [...new Set(seqs)]);
    const transition = (seq: number): Transition => {
      const kind = kinds.get(seq);
      return kind === undefined ? { seq } : { seq, kind };
    };
    return ({ openSeq, closeSeq }) => ({
      opened: transition(openSeq),
      ...(closeSeq === null ? {} : { closed: transition(closeSeq) }),
    });
  };

  const refuseUnknown = async (accountId: string, subjectId: string | undefined): Promise<void> => {
    if (subjectId === undefined || (await isInBooks(store.read, accountId, subjectId))) return;
    const message = `the books of your account do not name ${JSON.stringify(subjectId)}; send the ID of an instance, volume or snapshot of yours, or leave subjectId out`;
    throw new Refusal('not_found', message);
  };

  const entriesOf = async (accountId: string, filter: EntryFilter, pager: Pager): ReturnType<Books['entries']> => {
    const { rows, total } = await entryPage(store.read, accountId, filter, spanOf(pager));
    const ids = rows.flatMap(({ periodId }) => (periodId === null ? [] : [periodId]));
    const periods = new Map((await periodsById(store.read, [...new Set(ids)])).map((period) => [period.id, period]));
    const transitions = await transitionsOf(accountId, [...periods.values()]);
    const entries = rows.map((row) => {
      const period = row.periodId === null ? undefined : periods.get(row.periodId);
      if (period === undefined) return row;
      const { opened, closed } = transitions(period);
      // A later end of the period is no fact of the entry's hour.
      const isEnd = closed !== undefined && period.closedAtMs === row.untilMs;
      return { ...row, priceMicros: period.priceMicros, transitions: { opened, ...(isEnd && { closed }) } };
    });
    return { entries, totalEntries: total };
  };

  return {
    async entries({ accountId }, filter, pager) {
      await refuseUnknown(accountId, filter.subjectId);
      return entriesOf(accountId, filter, pager);
    },
    entriesFor: async (username, filter, pager) => entriesOf(await accountIdOf(store.read, username), filter, pager),

    async periods({ accountId }, filter, pager) {
      await refuseUnknown(accountId, filter.subjectId);
      const { rows, total } = await periodPage(store.read, accountId, filter, spanOf(pager));
      const transitions = await transitionsOf(accountId, rows);
      return { periods: rows.map((row) => ({ ...row, transitions: transitions(row) })), totalEntries: total };
    },
  };
}

const spanOf = ({ currentPage, pageSize }: Pager) => ({
  limit: pageSize,
  offset: Math.min((currentPage - 1) * pageSize, Number.MAX_SAFE_INTEGER),
  maxTotal: MAX_TOTAL,
});
