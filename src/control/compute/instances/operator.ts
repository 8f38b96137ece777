/** Lists for operators, and their actions on instances of others, by the use cases of the owner. */
import type { Action, InstanceStatus } from '../../../domain/compute/instance-states.ts';
import type { ListSort } from '../../../domain/kernel/list-sorts.ts';
import { accountNotFound, instanceNotFound } from '../../../domain/kernel/refusal.ts';
import { accountById, accountByLogin, type AccountRow } from '../../../store/tables/accounts.ts';
import { instanceRow } from '../../../store/tables/instances.ts';
import { pageOfAll, type OperatorFilter, type OwnedText } from '../../../store/tables/operator-lists.ts';
import type { Db, Store } from '../../../store/store.ts';
import { requestAction } from './actions.ts';
import type { Instances } from './instances.ts';
import { makeSetDrain, type SetDrain } from '../../regions/ports.ts';
import type { Caller, Idempotency, Pager, StartedOperation } from '../../kernel/ports.ts';
import type { MeteredDeps } from '../../money/ports.ts';

export interface OperatorListRequest {
  /** User ID, user name or email address. */
  account?: string | undefined;
  regionId?: string | undefined;
  name?: string | undefined;
  status?: readonly InstanceStatus[] | undefined;
  /** An order of the list. */
  sort?: ListSort | undefined;
}

interface OwnedPage {
  rows: OwnedText[];
  totalEntries: number;
}

type Act = (
  caller: Caller,
  body: {
    instanceId: string;
    reason: string;
    withoutGpu?: boolean | undefined;
    newRootDisk?: boolean | undefined;
  },
  idempotency: Idempotency | null,
  waitMs?: number | null,
) => Promise<{ instanceId: string } & StartedOperation>;

export interface Operator {
  instances(request: OperatorListRequest, pager: Pager): Promise<OwnedPage>;
  volumes(request: Omit<OperatorListRequest, 'status'>, pager: Pager): Promise<OwnedPage>;
  instance(
    instanceId: string,
  ): Promise<{ owner: { id: string; name: string } } & Awaited<ReturnType<Instances['get']>>>;
  stop: Act;
  start: Act;
  terminate: Act;
  drain: SetDrain;
}

export function makeOperator(deps: MeteredDeps, get: Instances['get']): Operator {
  const { store } = deps;
  const ownedRow = async (instanceId: string) => {
    const row = await instanceRow(store.read, instanceId);
    if (!row) throw instanceNotFound();
    return row;
  };
  const act =
    (action: Action): Act =>
    async ({ accountId }, { instanceId, reason, withoutGpu, newRootDisk }, idempotency, waitMs) => {
      const { ownerId } = await ownedRow(instanceId);
      const how = { withoutGpu, newRootDisk, waitMs, reason };
      const of = { action, instanceId, ownerId, ...how, cause: 'operator' } as const;
      return requestAction(deps, of, accountId, idempotency);
    };
  const page = async (table: 'instance' | 'volume', request: OperatorListRequest, pager: Pager): Promise<OwnedPage> => {
    const { currentPage, pageSize: limit } = pager;
    return pageOfAll(store.read, table, await filterOf(store, request), { offset: (currentPage - 1) * limit, limit });
  };
  return {
    instances: (request, pager) => page('instance', request, pager),
    volumes: (request, pager) => page('volume', request, pager),
    async instance(instanceId) {
      const { ownerId, ownerName } = await ownedRow(instanceId);
      return { owner: { id: ownerId, name: ownerName }, ...(await get({ accountId: ownerId }, { instanceId })) };
    },
    stop: act('stop'),
    start: act('start'),
    terminate: act('terminate'),
    drain: makeSetDrain(deps),
  };
}

async function filterOf({ read }: Store, { account, ...filter }: OperatorListRequest): Promise<OperatorFilter> {
  return account === undefined ? filter : { ...filter, ownerId: (await findAccount(read, account)).id };
}

/** Finds an account by ID, name or email address. */
export async function findAccount(db: Db, account: string): Promise<AccountRow> {
  const found = (await accountById(db, account)) ?? (await accountByLogin(db, account));
  if (found) return found;
  throw accountNotFound(account);
}
