/** Egress policies of regions and accounts, and how engines learn them. */
import { isDeepStrictEqual } from 'node:util';
import { openEgress, type EgressPolicies, type EgressPolicy } from '../../../domain/regions/egress.ts';
import { Refusal, regionNotFound } from '../../../domain/kernel/refusal.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import { regionWithUsage } from '../../../store/tables/catalog.ts';
import { egressPolicies, saveEgress } from '../../../store/tables/egress.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { findAccount } from './operator.ts';
import {
  type Caller,
  type Mutation,
  deadlineWithin,
  type TaskDeps,
  type UseCaseDeps,
  idempotentWrite,
  type RegionDrivers,
  type Regions,
} from '../../kernel/ports.ts';

/** Exactly one of the two. */
export interface EgressHolder {
  regionId?: string | undefined;
  /** User ID, user name or email address. */
  account?: string | undefined;
}

export interface HeldEgress {
  regionId: string | null;
  accountId: string | null;
  /** Null: open for a region, that of the region for an account. */
  policy: EgressPolicy | null;
}

export interface EgressUseCases {
  get(holder: EgressHolder): Promise<HeldEgress>;
  set: Mutation<EgressHolder & { policy: EgressPolicy | null }, HeldEgress>;
}

/** `applySoon` passes the policies on to the engines. */
export function makeEgressUseCases(deps: UseCaseDeps & { applySoon: () => void }): EgressUseCases {
  const { store, regions } = deps;
  async function holderOf({ regionId, account }: EgressHolder): Promise<Omit<HeldEgress, 'policy'>> {
    if (regionId === undefined && account === undefined)
      throw new Refusal('field_missing', 'field "regionId" is not set; or send "account"');
    if (regionId !== undefined && account !== undefined)
      throw new Refusal('field_value', '"regionId" and "account" exclude each other; send only one of them');
    if (account !== undefined) return { regionId: null, accountId: (await findAccount(store.read, account)).id };
    if (regionId !== undefined && (await regionWithUsage(store.read, regionId))) return { regionId, accountId: null };
    throw regionNotFound(regionId ?? '');
  }
  return {
    async get(asked) {
      const holder = await holderOf(asked);
      const policies = await egressPolicies(store.read);
      return { ...holder, policy: policies.get(holder.accountId ?? holder.regionId ?? '') ?? null };
    },
    async set({ accountId }: Caller, { policy, ...asked }, idempotency) {
      const holder = await holderOf(asked);
      if (policy !== null && policy.mode !== 'open') refuseUnenforced(regions, holder.regionId);
      const answer = await idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
        const subjectId = holder.accountId ?? holder.regionId ?? '';
        await saveEgress(tx, subjectId, policy);
        const of = holder.accountId ?? accountId;
        await appendEvent(tx, { accountId: of, atMs: nowMs, kind: 'egress.changed', subjectId, data: { policy } });
        return { ...holder, policy };
      });
      deps.applySoon();
      return answer;
    },
  };
}

/** An account may have instances in every region. */
function refuseUnenforced(regions: Regions, regionId: string | null): void {
  for (const { regionId: id, health } of regions.all()) {
    if (regionId !== null && id !== regionId) continue;
    if (health.probe === null) {
      const message = `the engine of region ${id} does not answer, so it is unknown whether it can enforce the policy; try again`;
      throw new Refusal('unavailable', message, { retryAfterS: 10 });
    }
    const { egressPolicy, whyNoEgressPolicy } = health.probe.capabilities.isolation;
    if (egressPolicy) continue;
    const message = `the engine of region ${id} cannot enforce an egress policy: ${whyNoEgressPolicy ?? 'no reason is known'}; send the mode "open", or remove the cause`;
    throw new Refusal('unsupported', message);
  }
}

const APPLY_MS = 30_000;

/**
 * Returns the task: passes changed policies to each engine, and again what it could not enforce.
 * Resolves once the engines know the policies; `passed`, once they enforce them or failed.
 */
export function makeApplyEgress(deps: Pick<TaskDeps, 'store' | 'regions' | 'log' | 'time' | 'stopping'>) {
  const applied = new WeakMap<RegionDrivers, EgressPolicies>();
  const underWay = new Set<RegionDrivers>();
  const pass = async (drivers: RegionDrivers, policies: EgressPolicies): Promise<void> => {
    if (underWay.has(drivers) || isDeepStrictEqual(applied.get(drivers), policies)) return;
    underWay.add(drivers);
    try {
      await drivers.engine.setEgress(policies, deadlineWithin(deps, APPLY_MS));
      applied.set(drivers, policies);
    } catch (error) {
      applied.delete(drivers);
      if (drivers.health.answers)
        deps.log.warn(
          { region: drivers.regionId, reason: errorText(error) },
          'an egress policy is not enforced; Berth retries',
        );
    } finally {
      underWay.delete(drivers);
    }
  };
  return async (): Promise<{ passed: Promise<unknown> }> => {
    const held = await egressPolicies(deps.store.read);
    const regionIds = new Set<string>(deps.regions.all().map(({ regionId }) => regionId));
    const accounts = new Map([...held].filter(([id]) => !regionIds.has(id)));
    return {
      passed: Promise.all(
        deps.regions.all().map((drivers) => {
          const { regionId, instanceNetwork } = drivers;
          const policies = { default: held.get(regionId) ?? openEgress, accounts, nameServers: instanceNetwork?.dns };
          return pass(drivers, policies);
        }),
      ),
    };
  };
}
