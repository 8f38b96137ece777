/** Events of an instance as log lines, by a scan of the account's events in spans. */
import type { Instance } from '../../../../domain/compute/instance.ts';
import { eventsAbout, eventsSince, latestSeq, seqBefore, type EventRow } from '../../../../store/tables/events.ts';
import type { Store } from '../../../../store/store.ts';
import type { LogSelection, LogReader, PositionedLine, LogStart } from './log-reader.ts';
import type { AccountVersions } from '../../../delivery/ports.ts';
import type { Time } from '../../../kernel/ports.ts';

const SPAN = 2_000;

export interface EventDeps {
  store: Store;
  accountVersions: AccountVersions;
  time: Time;
}

type Of = Pick<Instance, 'id' | 'ownerId' | 'createdAtMs'>;

export function eventsOf({ store, accountVersions, time }: EventDeps, { id, ownerId, createdAtMs }: Of): LogReader {
  const span = async (after: number, to: number): Promise<PositionedLine[]> =>
    (await eventsAbout(store.read, { accountId: ownerId, subjectId: id, after, to })).map(lineOf);

  async function* between(after: number, to: number, signal: AbortSignal): AsyncGenerator<PositionedLine> {
    for (let from = after; from < to; from += SPAN) {
      yield* await span(from, Math.min(to, from + SPAN));
      await time.sleep(0, signal);
    }
  }

  async function last(
    range: { count: number; after: number; to: number },
    signal: AbortSignal,
  ): Promise<PositionedLine[]> {
    const lines: PositionedLine[] = [];
    for (let { to } = range; to > range.after && lines.length < range.count; to -= SPAN) {
      lines.unshift(...(await span(Math.max(range.after, to - SPAN), to)));
      await time.sleep(0, signal);
    }
    return range.count === 0 ? [] : lines.slice(-range.count);
  }

  /** Start number, and whether later events are no longer stored. */
  async function startOf(from: LogStart): Promise<{ after: number; gap: boolean }> {
    if ('after' in from) {
      const after = Number(from.after);
      const [next] = await eventsSince(store.read, ownerId, after, 1);
      return { after, gap: next !== undefined && next.seq > after + 1 };
    }
    const sinceMs = 'sinceMs' in from ? Math.max(from.sinceMs, createdAtMs) : createdAtMs;
    return { after: await seqBefore(store.read, ownerId, sinceMs), gap: false };
  }

  async function* from(where: LogSelection, to: number, signal: AbortSignal): AsyncGenerator<PositionedLine> {
    if ('tail' in where) {
      const { after } = await startOf({ beginning: true });
      return yield* await last({ count: where.tail, after, to }, signal);
    }
    const { after, gap: missing } = await startOf(where);
    let gap = missing;
    for await (const line of between(after, to, signal)) {
      yield { ...line, gap };
      gap = false;
    }
  }

  return {
    async *read(where, untilMs, signal) {
      const latest = await latestSeq(store.read, ownerId);
      yield* from(where, untilMs === undefined ? latest : await seqBefore(store.read, ownerId, untilMs), signal);
    },
    async *follow(where, signal) {
      try {
        let version = await accountVersions.versionOf(ownerId);
        let lastSeq = await latestSeq(store.read, ownerId);
        yield* from(where, lastSeq, signal);
        for (;;) {
          await accountVersions.changed(ownerId, version, signal);
          version = await accountVersions.versionOf(ownerId);
          const latest = await latestSeq(store.read, ownerId);
          yield* between(lastSeq, latest, signal);
          lastSeq = latest;
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    },
  };
}

function lineOf({ seq, atMs, kind, data }: EventRow): PositionedLine {
  const line = { atMs, text: data === '{}' ? kind : `${kind} ${data}`, cut: false };
  return { line, position: String(seq), gap: false };
}
