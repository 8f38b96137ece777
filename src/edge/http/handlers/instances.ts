/** Instances, their stop policies and their operations. */
import type { Control } from '../../../control/index.ts';
import type { ListPages } from '../list-pages.ts';
import { presentIdleStatus, presentStopPolicy, stopPolicyOf } from '../presenters.ts';
import { isFilter, started, type ClosedHandlers } from './handler.ts';

type Quote = Awaited<ReturnType<Control['quotes']['quote']>>;

const presentQuote = ({ expiresAtMs, startsAtMs, stops, cheapestStart, nextPriceChange, ...quote }: Quote) => {
  const timed = <Of extends { atMs: number }>({ atMs, ...rest }: Of) => ({ ...rest, atUnixMs: atMs });
  return {
    ...quote,
    expiresAtUnixMs: expiresAtMs,
    startsAtUnixMs: startsAtMs,
    stops: stops.map(timed),
    cheapestStart: cheapestStart && timed(cheapestStart),
    nextPriceChange: nextPriceChange && timed(nextPriceChange),
  };
};

export const instanceHandlers = ({ instances, quotes, stopPolicies, operations }: Control, pages: ListPages) =>
  ({
    launch: (caller, { body, idempotency, waitMs, quoteId }) =>
      instances.launch(caller, body, idempotency, waitMs, quoteId).then(started),
    async quote(caller, { body }) {
      return { quote: presentQuote(await quotes.quote(caller, body)) };
    },
    listInstances: (caller, { body: { pager, ...filter } }) =>
      pages.answer({
        member: 'instances',
        caller,
        pager,
        isFiltered: isFilter(filter),
        read: () => instances.list(caller, pager, isFilter(filter) ? filter : undefined),
      }),
    async getInstance(caller, { body }) {
      const { instanceText, ...rest } = await instances.get(caller, body);
      return Buffer.from(`{"instance":${instanceText},${JSON.stringify(rest).slice(1)}`);
    },
    stop: (caller, { body, idempotency }) => instances.stop(caller, body, idempotency).then(started),
    start: (caller, { body, idempotency, waitMs }) => instances.start(caller, body, idempotency, waitMs).then(started),
    restart: (caller, { body, idempotency }) => instances.restart(caller, body, idempotency).then(started),
    archive: (caller, { body, idempotency }) => instances.archive(caller, body, idempotency).then(started),
    terminate: (caller, { body, idempotency }) => instances.terminate(caller, body, idempotency).then(started),
    updateInstance: (caller, { body, idempotency }) => instances.update(caller, body, idempotency),
    expandDisk: (caller, { body: { instanceId, dataDiskGB, dockerStorageSize }, idempotency }) =>
      instances
        .expandDisk(caller, { instanceId, dataDiskGB, dockerStorageGB: dockerStorageSize }, idempotency)
        .then(started),
    setBilling: (caller, { body, idempotency }) => instances.setBilling(caller, body, idempotency),
    open: (caller, { body }) => instances.open(caller, body),
    ends: async (caller, { body: { instanceId, ...policy } }) =>
      presentStopPolicy(await stopPolicies.set(caller, instanceId, stopPolicyOf(policy))),
    async keepAlive(caller, { body: { instanceId, minutes } }) {
      const { keepAliveUntilMs } = await stopPolicies.keepAlive(caller, instanceId, minutes * 60_000);
      return { instanceId, keepAliveUntilUnixMs: keepAliveUntilMs };
    },
    activity: async (caller, { body: { instanceId } }) =>
      presentIdleStatus(instanceId, await stopPolicies.idleStatus(caller, instanceId)),
    getOperation: async (caller, { body }) => ({ operation: await operations.read(caller, body) }),
    async listOperations(caller, { body: { pager, ...subject } }) {
      const listed = await operations.list(caller, subject, pager);
      return { operations: listed.operations, pager: { ...pager, totalEntries: listed.totalEntries } };
    },
    cancelOperation: (caller, { body, idempotency }) => operations.cancel(caller, body, idempotency).then(started),
  }) satisfies Partial<ClosedHandlers>;
