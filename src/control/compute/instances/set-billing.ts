/** Changes the billing options of an instance at once, without an operation. */
import { billingOptionsOf, faultOfBillingOptions } from '../../../domain/money/billing-options.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { instanceFromRow, lockInstance, writeRevision } from '../../../store/tables/instances.ts';
import type { Instances } from './instances.ts';
import { type UseCaseDeps, idempotentWrite } from '../../kernel/ports.ts';

export const makeSetBilling =
  (deps: Pick<UseCaseDeps, 'store' | 'time' | 'idempotent' | 'readCatalog'>): Instances['setBilling'] =>
  async ({ accountId }, { instanceId, autoRenew, resume }, idempotency) => {
    if (autoRenew === undefined && resume === undefined)
      throw new Refusal('field_missing', 'field "autoRenew" is not set; or send "resume"');
    const { regions } = await deps.readCatalog();
    return idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
      const row = await lockInstance(tx, accountId, instanceId);
      if (!row) throw instanceNotFound();
      const region = regions.get(row.regionId)?.region;
      if (!region) throw new Refusal('unavailable', `region ${row.regionId} is not configured on this server`);
      const before = instanceFromRow(row);
      const options = { autoRenew: autoRenew ?? before.spec.autoRenew, resume: resume ?? before.spec.resume };
      const next = { ...before, spec: { ...before.spec, ...options } };
      const fault = faultOfBillingOptions(next.spec);
      if (fault !== null) throw new Refusal('field_value', `field "${fault}`);
      const answer = { instanceId, ...options };
      if (JSON.stringify(options) === JSON.stringify(billingOptionsOf(before.spec))) return answer;
      await writeRevision(tx, before, next, region);
      const event = { accountId, atMs: nowMs, kind: 'instance.billingSet', subjectId: instanceId, data: options };
      await appendEvent(tx, event);
      return answer;
    });
  };
