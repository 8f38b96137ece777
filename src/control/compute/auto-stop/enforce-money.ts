/**
 * Carries out the step of an account whose money ends: stop, archive and deletion. What it does to
 * an instance or a volume is rolled back if money has come meanwhile.
 */
import { isAtLeast } from '../../../domain/money/money-ladder.ts';
import { isHourly } from '../../../domain/money/meter.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { holdingsOf } from '../../../store/tables/holdings.ts';
import { instanceFromRow, lockInstance } from '../../../store/tables/instances.ts';
import { listedWith, moneyStateOf } from '../../../store/tables/money-steps.ts';
import { makeStopAutomatically, writeAction } from '../instances/actions.ts';
import { type ActHandler, type TaskDeps, refuseWithoutSaving } from '../../kernel/ports.ts';
import { CHARGE_INTERVAL_MS, onlyWithoutMoney } from '../../money/ports.ts';
import { makeSnapshots, makeVolumes, type VolumeDeps } from '../../storage/ports.ts';

export function makeEnforceMoney(deps: TaskDeps & VolumeDeps): ActHandler {
  const { store, regions, time, changes, log } = deps;
  const metering = onlyWithoutMoney(deps.metering);
  const guarded = { ...deps, metering };
  const stopAutomatically = makeStopAutomatically(guarded);
  const { delete: deleteVolume } = makeVolumes(guarded);
  const { delete: deleteSnapshot } = makeSnapshots(guarded);

  /** Ignores refusals: a resource is going, used, or can't be saved; the next run looks again. */
  const tryTo = (id: string, work: Promise<unknown>): Promise<unknown> =>
    work.catch((error: unknown) => {
      if (!(error instanceof Refusal))
        log.warn({ id, err: error }, 'could not stop, archive or delete for lack of money; Berth retries');
    });

  async function act(action: 'archive' | 'terminate', { id, ownerId }: { id: string; ownerId: string }): Promise<void> {
    const catalog = await deps.readCatalog();
    await store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      if (!row) return;
      if (action === 'archive') refuseWithoutSaving(regions.of(row.regionId));
      await writeAction(tx, row, { action, catalog, metering, nowMs: time.now(), cause: 'NoMoney' });
    });
    changes.publish({ subject: 'instance', id, isDue: true });
  }

  async function stopRuns(accountId: string): Promise<void> {
    for (const { id, ownerId, spec } of (await listedWith(store.read, accountId, 'running')).map(instanceFromRow))
      if (isHourly(spec.chargeMode))
        await tryTo(
          id,
          stopAutomatically({ id, ownerId }, () => ({ cause: 'NoMoney' })),
        );
  }

  async function archiveStopped(accountId: string): Promise<void> {
    for (const instance of (await listedWith(store.read, accountId, 'stopped')).map(instanceFromRow)) {
      const { status } = instance.observed;
      const { kind, state } = instance.operation;
      const hasFailed = kind === 'archive' && state === 'Failed';
      if ((status === 'Stopped' || status === 'StartingFailed') && !hasFailed)
        await tryTo(instance.id, act('archive', instance));
    }
  }

  async function deleteAll(accountId: string): Promise<void> {
    const owner = { accountId, username: '', email: '', roles: [], sessionId: null, scopes: null };
    const { instances, snapshots, volumes } = await holdingsOf(store.read, accountId);
    const paidAhead = new Set<string>();
    for (const row of await listedWith(store.read, accountId, 'running'))
      if (!isHourly(instanceFromRow(row).spec.chargeMode)) paidAhead.add(row.id);
    for (const { id } of instances)
      if (!paidAhead.has(id)) await tryTo(id, act('terminate', { id, ownerId: accountId }));
    for (const { id } of snapshots) await tryTo(id, deleteSnapshot(owner, { id }, null));
    for (const { id } of volumes) await tryTo(id, deleteVolume(owner, { id }, null));
  }

  return async ({ id }) => {
    const { step } = await moneyStateOf(store.read, id);
    if (!isAtLeast(step, 'stop')) return null;
    if (metering.isBilled) {
      await stopRuns(id);
      if (step === 'archive') await archiveStopped(id);
      if (step === 'delete') await deleteAll(id);
    }
    return time.now() + CHARGE_INTERVAL_MS;
  };
}
