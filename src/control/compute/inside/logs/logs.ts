/** Logs as pages or followed; engines store the lines, a reader holds one page or line. */
import { EngineFault } from '../../../../domain/regions/engine-fault.ts';
import { isInstanceId } from '../../../../domain/kernel/ids.ts';
import type { Instance } from '../../../../domain/compute/instance.ts';
import { instanceNotFound, Refusal } from '../../../../domain/kernel/refusal.ts';
import type { LogLine } from '../../../../engines/contract.ts';
import { instanceFromRow, instanceRow } from '../../../../store/tables/instances.ts';
import { consoleOf, scriptLogOf } from './engine-logs.ts';
import { eventsOf } from './events.ts';
import { followInstance, type FollowedLog, type OpenedLog } from './follow.ts';
import type { LogSource } from '../../../../domain/compute/log-position.ts';
import { bytesOf, type LogSelection, type LogReader, type PositionedLine } from './log-reader.ts';
import { redactSecret, logRefusal, missingLogReason } from './availability.ts';
import type { AccountVersions } from '../../../delivery/ports.ts';
import {
  type TaskDeps,
  rootDiskFacts,
  type RegionDrivers,
  makeConcurrencyLimit,
  type Caller,
} from '../../../kernel/ports.ts';
import type { NotebookTokens } from '../../../access/ports.ts';

export interface LogRequest {
  instanceId: string;
  source: LogSource;
  from: LogSelection;
}

export interface LogPage {
  lines: LogLine[];
  next: string | null;
  more: boolean;
  gap: boolean;
}

export interface Logs {
  /** At most `limit` lines and 1 MiB. Throws `not_now` if the log is unavailable. */
  read(caller: Caller, request: LogRequest & { untilMs?: number | undefined; limit: number }): Promise<LogPage>;
  follow(caller: Caller, request: LogRequest, signal: AbortSignal): AsyncGenerator<FollowedLog, void>;
  /** All stored lines. The first item is null: the request was accepted. */
  all(caller: Caller, request: LogRequest, signal: AbortSignal): AsyncGenerator<LogLine | null, void>;
}

const PAGE_BYTES = 1024 * 1024;
const READ_DEADLINE_MS = 30_000;
const READS = { perAccount: 4, total: 16, share: 2, retryAfterS: 1 };
const STREAMS = { perAccount: 8, total: 256, share: 2, retryAfterS: 10 };

type LogDeps = Pick<TaskDeps, 'store' | 'regions' | 'time'> & {
  accountVersions: AccountVersions;
  notebookTokens: Pick<NotebookTokens, 'open'>;
};

export interface RunningLogs extends Logs {
  stop(): void;
}

export function makeLogs({ store, regions, time, accountVersions, notebookTokens }: LogDeps): RunningLogs {
  const ending = new AbortController();
  const reads = makeConcurrencyLimit({
    ...READS,
    full: {
      mine: (count) => `${count} of your log requests are running, the limit; try again when one has ended`,
      all: (count) => `${count} log requests are running on this server, the limit; try again in a moment`,
    },
  });
  const streams = makeConcurrencyLimit({
    ...STREAMS,
    full: {
      mine: (count) => `this account has ${count} open log streams, and the limit is ${STREAMS.perAccount}; close one`,
      all: (count) => `this server has ${count} open log streams, its limit; try again later`,
    },
  });

  async function openLog({ accountId }: Caller, { instanceId, source }: LogRequest): Promise<OpenedLog> {
    const row = isInstanceId(instanceId) ? await instanceRow(store.read, instanceId) : undefined;
    if (row?.ownerId !== accountId) throw instanceNotFound();
    const instance = instanceFromRow(row);
    const drivers = regions.of(instance.spec.regionId);
    return {
      instance,
      reader: readerOf(drivers, instance, source),
      missing: missingLogReason(instance, source, rootDiskFacts(drivers)),
      secret: notebookTokens.open(row),
    };
  }

  function readerOf({ engine }: RegionDrivers, instance: Instance, source: LogSource): LogReader {
    switch (source) {
      case 'console':
        return consoleOf(engine, instance.id, time);
      case 'init':
      case 'start':
      case 'notebook':
        return scriptLogOf(engine, instance.id, source);
      case 'events':
        return eventsOf({ store, accountVersions, time }, instance);
      default:
        return source satisfies never;
    }
  }

  async function readLines(
    caller: Caller,
    request: LogRequest & { untilMs?: number | undefined },
    signal: AbortSignal,
  ): Promise<AsyncGenerator<PositionedLine>> {
    const log = await openLog(caller, request);
    if (log.missing !== null) throw new Refusal('not_now', log.missing);
    return redacted(log, log.reader.read(request.from, request.untilMs, signal));
  }

  async function* streamed<Item>(
    { accountId }: Caller,
    callerSignal: AbortSignal,
    read: (signal: AbortSignal) => AsyncGenerator<Item, void>,
  ): AsyncGenerator<Item, void> {
    const signal = AbortSignal.any([callerSignal, ending.signal]);
    const release = streams.acquire(accountId);
    try {
      yield* read(signal);
    } finally {
      release();
    }
  }

  async function* all(caller: Caller, request: LogRequest, signal: AbortSignal): AsyncGenerator<LogLine | null, void> {
    const lines = await readLines(caller, request, signal);
    try {
      const first = await lines.next();
      yield null;
      if (!first.done) yield first.value.line;
      for await (const { line } of lines) yield line;
    } finally {
      await lines.return(undefined);
    }
  }

  return {
    async read(caller, request) {
      const release = reads.acquire(caller.accountId);
      try {
        const signal = AbortSignal.any([ending.signal, time.deadline(READ_DEADLINE_MS)]);
        const page: LogPage = {
          lines: [],
          next: 'after' in request.from ? request.from.after : null,
          more: false,
          gap: false,
        };
        let bytes = 0;
        for await (const { line, position, gap } of await readLines(caller, request, signal)) {
          bytes += bytesOf(line);
          page.more = page.lines.length === request.limit || (bytes > PAGE_BYTES && page.lines.length > 0);
          if (page.more) break;
          page.lines.push(line);
          page.next = position ?? page.next;
          page.gap ||= gap;
        }
        return page;
      } finally {
        release();
      }
    },
    follow: (caller, request, callerSignal) =>
      streamed(caller, callerSignal, (signal) => {
        const find = (): Promise<OpenedLog> => openLog(caller, request);
        return followInstance(find, { ...request, accountId: caller.accountId }, { accountVersions, time, signal });
      }),
    all: (caller, request, callerSignal) => streamed(caller, callerSignal, (signal) => all(caller, request, signal)),
    stop: () => ending.abort(),
  };
}

/** Redacts the secret, and turns faults into refusals. A log that does not exist yet is empty. */
async function* redacted(
  { instance, secret }: OpenedLog,
  lines: AsyncIterable<PositionedLine>,
): AsyncGenerator<PositionedLine> {
  try {
    for await (const positioned of lines) yield { ...positioned, line: redactSecret(positioned.line, secret) };
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error;
    if (error.kind !== 'not_found') throw logRefusal(error, instance);
  }
}
