/** Follows the console until terminate, the init script's log for one run, past engine outages. */
import { EngineFault } from '../../../../domain/regions/engine-fault.ts';
import type { Instance } from '../../../../domain/compute/instance.ts';
import { Refusal } from '../../../../domain/kernel/refusal.ts';
import type { LogSource } from '../../../../domain/compute/log-position.ts';
import type { LogSelection, LogReader, PositionedLine, LogStart } from './log-reader.ts';
import { hasLog, redactSecret, isComplete, isStartedOrStarting, logRefusal } from './availability.ts';
import type { AccountVersions } from '../../../delivery/ports.ts';
import type { Time } from '../../../kernel/ports.ts';

export type FollowedLog =
  /** The first item. `over`: only stored lines follow. */
  | { kind: 'begun'; over: boolean }
  | ({ kind: 'line' } & PositionedLine)
  | { kind: 'status'; status: string }
  | { kind: 'end'; why: string };

export interface OpenedLog {
  instance: Instance;
  reader: LogReader;
  /** Why there is no such log; null: there is, or will be one. */
  missing: string | null;
  secret: string;
}

interface FollowDeps {
  accountVersions: AccountVersions;
  time: Time;
  signal: AbortSignal;
}

const RECHECK_MS = 1_000;
const ENGINE_AWAY_MS = 5_000;

export async function* followInstance(
  find: () => Promise<OpenedLog>,
  { accountId, source, from: begin }: { accountId: string; source: LogSource; from: LogSelection },
  { accountVersions, time, signal }: FollowDeps,
): AsyncGenerator<FollowedLog, void> {
  let from = begin;
  let reported: string | null = null;
  for (;;) {
    const version = await accountVersions.versionOf(accountId);
    const { instance, reader, missing: why, secret } = await find();
    const { status } = instance.observed;
    const over = isComplete(instance, source);
    if (reported === null) {
      if (why !== null) throw new Refusal('not_now', why);
      yield { kind: 'begun', over };
    } else if (reported !== status) yield { kind: 'status', status };
    reported = status;
    if (why !== null && (instance.desired === 'released' || (source !== 'console' && source !== 'events')))
      return yield { kind: 'end', why };
    let waitMs = isStartedOrStarting(instance) ? RECHECK_MS : null;
    if (why === null && hasLog(instance, source)) {
      try {
        for await (const one of resumableLines(reader, from, { over, signal })) {
          if ('start' in one) from = one.start;
          else yield { kind: 'line', ...one, line: redactSecret(one.line, secret) };
        }
        if (signal.aborted) return;
        if (source !== 'console') return yield { kind: 'end', why: whyEnded[source] };
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof EngineFault)) throw error;
        const isGone = error.kind === 'not_found';
        if (!isGone && !error.retry) return yield { kind: 'end', why: logRefusal(error, instance).message };
        if (!isGone) waitMs = ENGINE_AWAY_MS;
      }
    }
    const waiting = waitMs === null ? signal : AbortSignal.any([signal, time.deadline(waitMs)]);
    await accountVersions.changed(accountId, version, waiting).catch(() => {});
    if (signal.aborted) return;
  }
}

const whyEnded = {
  init: 'the init script has ended, or its instance has stopped: the log is complete',
  start: 'the start command has ended, or its instance has stopped: the log is complete',
  notebook: 'the instance has stopped: the log is complete',
  events: 'the instance is terminated: the log is complete',
} as const;

/** Yields the resume position after each line. */
async function* resumableLines(
  reader: LogReader,
  from: LogSelection,
  { over, signal }: { over: boolean; signal: AbortSignal },
): AsyncGenerator<PositionedLine | { start: LogStart }> {
  let start: LogStart;
  if ('tail' in from) {
    // A tail of 0 also needs the last line's position.
    const last = await Array.fromAsync(reader.read({ tail: Math.max(1, from.tail) }, undefined, signal));
    const at = last.findLast((one) => one.position !== null)?.position ?? null;
    start = at === null ? { beginning: true } : { after: at };
    yield { start };
    if (from.tail > 0) yield* last;
  } else start = from;
  for await (const one of over ? reader.read(start, undefined, signal) : reader.follow(start, signal)) {
    if (one.position !== null) yield { start: { after: one.position } };
    yield one;
  }
}
