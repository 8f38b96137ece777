/**
 * Carries out the steps of accounts whose money ends: stop, archive and deletion. What it does to
 * an instance or a volume is rolled back if money has come meanwhile.
 */
import { isHourly } from '../../../domain/money/meter.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { holdingsOf } from '../../../store/tables/holdings.ts';
import { instanceFromRow, lockInstance } from '../../../store/tables/instances.ts';
import { instancesAtSteps, limitedAccounts } from '../../../store/tables/money-steps.ts';
import { makeStopAutomatically, writeAction } from '../instances/actions.ts';
import { type TaskDeps, refuseWithoutSaving } from '../../kernel/ports.ts';
import { onlyWithoutMoney } from '../../money/ports.ts';
import { makeSnapshots, makeVolumes, type VolumeDeps } from '../../storage/ports.ts';

export function makeEnforceMoney(deps: TaskDeps & VolumeDeps): () => Promise<void> {
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

  async function stopRuns(): Promise<void> {
    const running = (await instancesAtSteps(store.read, ['stop', 'archive', 'delete'], 'running')).map(instanceFromRow);
    for (const { id, ownerId, spec } of running)
      if (isHourly(spec.chargeMode))
        await tryTo(
          id,
          stopAutomatically({ id, ownerId }, () => ({ cause: 'NoMoney' })),
        );
  }

  async function archiveStopped(): Promise<void> {
    const stopped = (await instancesAtSteps(store.read, ['archive'], 'stopped')).map(instanceFromRow);
    for (const instance of stopped) {
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
    for (const row of await instancesAtSteps(store.read, ['delete'], 'running'))
      if (!isHourly(instanceFromRow(row).spec.chargeMode)) paidAhead.add(row.id);
    for (const { id } of instances)
      if (!paidAhead.has(id)) await tryTo(id, act('terminate', { id, ownerId: accountId }));
    for (const { id } of snapshots) await tryTo(id, deleteSnapshot(owner, { id }, null));
    for (const { id } of volumes) await tryTo(id, deleteVolume(owner, { id }, null));
  }

  return async () => {
    if (!metering.isBilled) return;
    await stopRuns();
    await archiveStopped();
    for (const [accountId, step] of await limitedAccounts(store.read))
      if (step === 'delete') await deleteAll(accountId);
  };
}
