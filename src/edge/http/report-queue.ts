/**
 * Queue of expensive reads: one of an account at a time, few of all, and accounts take turns. Each
 * begins in a turn of the event loop of its own, because reads of SQLite end within one turn. A
 * download waits again before each of its parts. After each step its place stays empty for as long
 * as the step took, so reports take half of the time at most.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { makeKeyedLimit } from '../../async/limits.ts';
import { makeSemaphore } from '../../async/semaphore.ts';
import { routeNames, routeOf, type RouteName } from '../../contract/routes.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { isObject } from './schema-shape.ts';

const AT_ONCE = 4;
const PER_ACCOUNT = 1;
/** Reports of an account that wait, run, or are downloaded. */
const MAX_OF_ACCOUNT = 16;
const LONGEST_PAUSE_MS = 2_000;

/** Requests whose rows nothing bounds, besides reads of billing. */
const others: ReadonlySet<RouteName> = new Set<RouteName>([
  'quote',
  'instanceFigures',
  'listPrices',
  'listPriceChanges',
  'listAccountEntries',
  'setBudget',
  'setAccountBudget',
  'listAccountBudgets',
  'listAudit',
  'listAccounts',
  'listAllInstances',
  'listAllVolumes',
  'getAccount',
  'fleet',
]);

const reports: ReadonlySet<RouteName> = new Set(
  routeNames.filter((name) => others.has(name) || (routeOf(name).reads && routeOf(name).path.startsWith('/billing/'))),
);

/** Logs of engines are none: one that does not answer would keep an account from its reports. */
export const isReport = (name: RouteName, { body }: { body: unknown }): boolean =>
  reports.has(name) || (name === 'logs' && isObject(body) && body['source'] === 'events');

/** Runs one step of a report when its account has its turn. */
export type RunStep = <T>(step: () => Promise<T>) => Promise<T>;

export interface ReportQueue {
  /**
   * Counts the report as under way until `work` settles, whose reads are its steps. Throws
   * `too_many_requests` when too many of the account are.
   */
  run<T>(accountId: string, work: (runStep: RunStep) => Promise<T>): Promise<T>;
}

interface ReportQueueDeps {
  /** Milliseconds that never go back. */
  now?: () => number;
  pause?: (ms: number) => Promise<unknown>;
}

export function makeReportQueue({
  now = () => performance.now(),
  pause = (ms) => sleep(ms, undefined, { ref: false }),
}: ReportQueueDeps = {}): ReportQueue {
  const semaphore = makeSemaphore(AT_ONCE, { perOwner: PER_ACCOUNT });
  const limit = makeKeyedLimit({ total: Infinity, perKey: MAX_OF_ACCOUNT });
  const runStep = <T>(owner: string, step: () => Promise<T>): Promise<T> => {
    const answer = Promise.withResolvers<T>();
    const timed = async (): Promise<void> => {
      await nextTurn();
      const beganMs = now();
      await step().then(answer.resolve, answer.reject);
      await pause(Math.min(now() - beganMs, LONGEST_PAUSE_MS));
    };
    semaphore.run(timed, { owner }).catch(answer.reject);
    return answer.promise;
  };
  return {
    async run(accountId, work) {
      const release = limit.tryAcquire(accountId);
      if (release === null)
        throw new Refusal(
          'too_many_requests',
          `${MAX_OF_ACCOUNT} reports and quotes of this account are under way, its limit; wait for their answers`,
          { retryAfterS: 1 },
        );
      try {
        return await work((step) => runStep(accountId, step));
      } finally {
        release();
      }
    },
  };
}

/** Each item is a step: a download that is read slowly leaves the queue to others meanwhile. */
export async function* inSteps<Item>(items: AsyncIterable<Item>, runStep: RunStep): AsyncGenerator<Item> {
  const iterator = items[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await runStep(() => iterator.next());
      if (done === true) return;
      yield value;
    }
  } finally {
    await iterator.return?.();
  }
}
