/** Wake on request: the owner's setting, and the start of a stopped instance for the gateway. */
import { AUDIT_OK } from '../../../domain/access/audit.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import {
  nextVisitorWakeMs,
  refusalOfWake,
  visitorWakesOf,
  type WakePolicy,
  type Waker,
} from '../../../domain/compute/wake.ts';
import { isHourly } from '../../../domain/money/meter.ts';
import { isOver, paidAheadMode } from '../../../domain/money/paid-time.ts';
import { toDollars, type Micros } from '../../../domain/regions/catalog.ts';
import { NEVER_MS, offPeakWait } from '../../../domain/regions/off-peak.ts';
import { accountById } from '../../../store/tables/accounts.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { activeRowsAmong } from '../../../store/tables/instance-queries.ts';
import { instanceFromRow, lockInstance, type InstanceRow } from '../../../store/tables/instances.ts';
import { pastBringUp } from '../../../store/tables/operations.ts';
import { paidTimeOf } from '../../../store/tables/paid-times.ts';
import { wakeOf, writeWake } from '../../../store/tables/ports.ts';
import type { Db } from '../../../store/store.ts';
import type { AccessParts, Wake, WakeOffer, WakeRequest } from '../../access/ports.ts';
import type { Caller, CatalogSnapshot, UseCaseDeps } from '../../kernel/ports.ts';
import type { MeteredDeps } from '../../money/ports.ts';
import { writeAction } from './actions.ts';

export interface InstanceWake extends Pick<WakePolicy, 'by' | 'visitorsPerDay'> {
  instanceId: string;
  visitorsToday: number;
}

interface WakeChange {
  instanceId: string;
  by?: Waker | undefined;
  visitorsPerDay?: number | undefined;
}

export interface Wakes {
  /** Absent members stay unchanged. */
  set(caller: Caller, change: WakeChange): Promise<InstanceWake>;
  /** Starts the instance, or only says what a start would cost and take. */
  request: Wake;
}

type WakeDeps = MeteredDeps & Pick<UseCaseDeps, 'store' | 'time' | 'randomUuid'> & Pick<AccessParts, 'audit'>;

export function makeWakes(deps: WakeDeps): Wakes {
  const { store, time, changes, audit, randomUuid } = deps;

  const record = async (
    { instanceId, accountId, credential, visitor }: WakeRequest,
    outcome: string,
  ): Promise<void> => {
    const account = accountId === null ? undefined : await accountById(store.read, accountId);
    await audit.record({
      route: 'gatewayWake',
      outcome,
      caller: account === undefined ? null : { accountId: account.id, username: account.username, sessionId: null },
      credential,
      loginName: null,
      ...visitor,
      subjects: [instanceId],
      requestId: randomUuid(),
    });
  };

  const start = async (request: WakeRequest, { ownerId }: InstanceRow): Promise<void> => {
    const { instanceId } = request;
    try {
      const catalog = await deps.readCatalog();
      const started = await store.write((tx) => writeWakeUp(tx, { deps, catalog, request, ownerId }));
      if (!started) return;
    } catch (error) {
      if (error instanceof Refusal) await record(request, error.code);
      throw error;
    }
    changes.publish({ subject: 'instance', id: instanceId, isDue: true });
    await record(request, AUDIT_OK);
  };

  return {
    async set({ accountId }, { instanceId, ...change }) {
      const nowMs = time.now();
      const next = await store.write(async (tx) => {
        const row = await lockInstance(tx, accountId, instanceId);
        if (!row) throw instanceNotFound();
        const before = wakeOf(row);
        const { by = before.by, visitorsPerDay = before.visitorsPerDay } = change;
        const policy = { ...before, by, visitorsPerDay };
        if (by === before.by && visitorsPerDay === before.visitorsPerDay) return policy;
        await writeWake(tx, instanceId, policy);
        const data = { by, visitorsPerDay };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'instance.wakeSet', subjectId: instanceId, data });
        return policy;
      });
      changes.publish({ subject: 'instance', id: instanceId });
      const { by, visitorsPerDay } = next;
      return { instanceId, by, visitorsPerDay, visitorsToday: visitorWakesOf(next, nowMs).length };
    },

    async request(request) {
      const { instanceId, accountId, starts } = request;
      const [row] = await activeRowsAmong(store.read, [instanceId], { reachable: true });
      if (!row) throw instanceNotFound();
      const isOwner = accountId === row.ownerId;
      if (starts) await (isOwner ? start(request, row) : start(request, row).catch(withoutDetails));
      return offerOf(store.read, instanceFromRow(row), isOwner);
    },
  };
}

/** Keeps money, quotas and disks of the owner from visitors. */
function withoutDetails(error: unknown): never {
  if (!(error instanceof Refusal) || error.code === 'too_many_requests') throw error;
  const { retryAfterS } = error;
  throw new Refusal(
    'unavailable',
    'the instance cannot be started by a request at the moment; its owner can start it',
    retryAfterS === undefined ? {} : { retryAfterS },
  );
}

interface WakeUp {
  deps: WakeDeps;
  catalog: CatalogSnapshot;
  request: WakeRequest;
  ownerId: string;
}

/** False: it starts or runs already. */
async function writeWakeUp(tx: Db, { deps, catalog, request, ownerId }: WakeUp): Promise<boolean> {
  const { instanceId, accountId } = request;
  const row = await lockInstance(tx, ownerId, instanceId);
  if (!row) throw instanceNotFound();
  const instance = instanceFromRow(row);
  if (instance.desired === 'running') return false;
  const nowMs = deps.time.now();
  const policy = wakeOf(row);
  const isOwner = accountId === ownerId;
  if (policy.by === 'off' || (policy.by === 'owner' && !isOwner))
    throw new Refusal('forbidden', 'the setting of the instance lets no request of yours start it');
  await refuseNow(tx, instance, catalog, nowMs);
  if (!isOwner) {
    const nextMs = nextVisitorWakeMs(policy, nowMs);
    if (nextMs !== null)
      throw new Refusal(
        'too_many_requests',
        `visitors have started the instance ${policy.visitorsPerDay} times in 24 hours, the limit of its owner`,
        { retryAfterS: Math.ceil((nextMs - nowMs) / 1_000) },
      );
    await writeWake(tx, instanceId, { ...policy, visitorWakesAtMs: [...visitorWakesOf(policy, nowMs), nowMs] });
  }
  const { metering, spotGraceMs } = deps;
  const bringUp = { drivers: deps.regions.of(row.regionId), withoutGpu: instance.spec.cpuOnlyPriceMicros !== null };
  const why = { by: isOwner ? 'owner' : 'visitor' };
  await writeAction(tx, row, { action: 'start', cause: 'wake', why, catalog, metering, spotGraceMs, bringUp, nowMs });
  return true;
}

/** Refuses a start that waits for a window, buys time, or undoes a stop for a reason. */
async function refuseNow(tx: Db, instance: Instance, { regions }: CatalogSnapshot, nowMs: number): Promise<void> {
  const { id, spec, observed } = instance;
  const paid = paidAheadMode(spec.chargeMode) === null ? null : await paidTimeOf(tx, id);
  const why =
    paid === undefined || (paid && isOver(paid, nowMs))
      ? 'its paid time is over, and a start buys it again'
      : refusalOfWake(observed.status, observed.diagnosis);
  if (why !== null)
    throw new Refusal('not_now', `a request does not start the instance: ${why}; start it in the console`);
  const wait = offPeakWait(spec, regions.get(spec.regionId)?.offPeak ?? null, nowMs);
  if (wait === null) return;
  const retryAfterS = Math.ceil((wait.notBeforeMs - nowMs) / 1_000);
  throw new Refusal(
    'not_now',
    `a request does not start the instance: ${wait.text}`,
    wait.notBeforeMs === NEVER_MS ? {} : { retryAfterS },
  );
}

const nextPriceMicros = ({ spec, pending, priceMicros }: Instance): Micros =>
  BigInt(spec.cpuOnlyPriceMicros ?? pending?.resize?.priceMicros ?? priceMicros);

async function offerOf(db: Db, instance: Instance, isOwner: boolean): Promise<WakeOffer> {
  const { id, ownerId, spec } = instance;
  const last = (await pastBringUp(db, ownerId, id))?.operation;
  const isKnown = last?.state === 'Succeeded' && last.endedAtMs !== null;
  return {
    dollarsPerHour: isOwner && isHourly(spec.chargeMode) ? toDollars(nextPriceMicros(instance)) : null,
    expectedMs: isKnown ? (last.endedAtMs ?? last.startedAtMs) - last.startedAtMs : null,
  };
}
