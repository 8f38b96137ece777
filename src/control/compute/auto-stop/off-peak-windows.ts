/**
 * Follows the off-peak windows of the regions: announces the end of a window, stops what it leaves
 * running, and wakes what waits for another time than the next window. Each run compares the rows
 * with the windows of now, so a change of the windows needs no other path.
 */
import { noticeReasons } from '../../../domain/compute/notice.ts';
import { ENDING_NOTICE_MS, NEVER_MS, nextWindow, type OffPeak } from '../../../domain/regions/off-peak.ts';
import { offPeaks } from '../../../store/tables/catalog.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { lockInstance, makeDue } from '../../../store/tables/instances.ts';
import {
  announcedOtherwise,
  isDueInWindow,
  startedInTide,
  waitsForOtherWindow,
  writeNotice,
  type Owned,
} from '../../../store/tables/tide-and-spot.ts';
import { type StopAutomatically, type TaskDeps, eachFew } from '../../kernel/ports.ts';

const AT_ONCE = 200;

interface OffPeakDeps extends Pick<TaskDeps, 'store' | 'time' | 'log' | 'changes'> {
  stopAutomatically: StopAutomatically;
}

export function makeOffPeakWindows({ store, time, log, changes, stopAutomatically }: OffPeakDeps) {
  /** Errors of the last run by instance: an error is logged once, not every second. */
  let failed = new Map<string, string>();

  return async (): Promise<void> => {
    const failing = new Map<string, string>();
    for (const { id, offPeak } of await offPeaks(store.read)) await follow(id, offPeak, failing);
    failed = failing;
  };

  async function follow(regionId: string, offPeak: OffPeak | null, failing: Map<string, string>): Promise<void> {
    const nowMs = time.now();
    const window = offPeak && nextWindow(offPeak, nowMs);
    const isOpen = window !== null && window.opensAtMs <= nowMs;
    const wake = async (rows: readonly Owned[]): Promise<void> => {
      if (rows.length === 0) return;
      await store.write((tx) =>
        makeDue(
          tx,
          rows.map(({ id }) => id),
          nowMs,
        ),
      );
      changes.publish({ subject: 'instance', isDue: true });
    };
    const each = <Row extends Owned>(
      read: (page: { afterId: string; limit: number }) => Promise<Row[]>,
      act: (row: Row) => Promise<unknown>,
    ): Promise<void> =>
      eachOf(read, (row) =>
        act(row).catch((error: unknown) => {
          const why = String(error);
          failing.set(row.id, why);
          if (failed.get(row.id) !== why)
            log.warn({ id: row.id, err: error }, 'could not end the run of an off-peak instance; Berth retries');
        }),
      );

    if (!isOpen) {
      const opensAtMs = window?.opensAtMs ?? NEVER_MS;
      for (const than of ['<', '>'] as const)
        await eachPage((page) => waitsForOtherWindow(store.read, regionId, than, opensAtMs, page), wake);
      await each(
        (page) => startedInTide(store.read, regionId, page),
        (row) => (row.waits === 1 ? wake([row]) : stopAutomatically(row, endOf)),
      );
      return;
    }
    await eachPage((page) => waitsForOtherWindow(store.read, regionId, '>', nowMs, page), wake);
    // The loop sleeps through a step of the clock.
    if (await isDueInWindow(store.read, regionId, nowMs)) changes.publish({ subject: 'instance', isDue: true });
    const { closesAtMs } = window;
    const endsAtMs = closesAtMs !== null && closesAtMs - nowMs <= ENDING_NOTICE_MS ? closesAtMs : null;
    await each(
      (page) => announcedOtherwise(store.read, regionId, endsAtMs, page),
      (row) => announce(row, endsAtMs, nowMs),
    );
  }

  async function announce({ id, ownerId }: Owned, endsAtMs: number | null, nowMs: number): Promise<void> {
    await store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      if (row?.desired !== 'running' || row.notBeforeMs !== null || row.windowEndsAtMs === endsAtMs) return;
      await writeNotice(tx, row, { windowEndsAtMs: endsAtMs }, nowMs);
      const data =
        endsAtMs === null ? { stopsAtUnixMs: null } : { stopsAtUnixMs: endsAtMs, reason: noticeReasons.OffPeakEnded };
      await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: 'instance.offPeakEnding', subjectId: id, data });
    });
    changes.publish({ subject: 'instance', id, isDue: true });
  }
}

const endOf: Parameters<StopAutomatically>[1] = ({ spec, notBeforeMs, waitsSinceMs }) =>
  spec.chargeMode === 'tidePerHour' && notBeforeMs === null && waitsSinceMs === null ? { cause: 'OffPeakEnded' } : null;

/** Reads by id, so that a row that stays as it is delays no other. */
async function eachPage<Row extends Owned>(
  read: (page: { afterId: string; limit: number }) => Promise<Row[]>,
  act: (rows: Row[]) => Promise<unknown>,
): Promise<void> {
  for (let afterId = ''; ;) {
    const rows = await read({ afterId, limit: AT_ONCE });
    await act(rows);
    const last = rows.at(-1);
    if (!last || rows.length < AT_ONCE) return;
    afterId = last.id;
  }
}

const eachOf = <Row extends Owned>(
  read: (page: { afterId: string; limit: number }) => Promise<Row[]>,
  act: (row: Row) => Promise<unknown>,
): Promise<void> => eachPage(read, (rows) => eachFew(rows, act));
