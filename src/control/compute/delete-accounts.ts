/**
 * Deletes an account whose grace time has ended. Each run goes as far as the reconcilers have come:
 * instances are terminated, then snapshots, volumes and images deleted, then the disks that are
 * left, then the rows. A crash between loses nothing: the next run starts over.
 */
import { accountById, lockAccount } from '../../store/tables/accounts.ts';
import { deleteAccountRows, hasStoredResources, hasUncleanInstances } from '../../store/tables/account-rows.ts';
import { deleteDisks, disksOfOwner } from '../../store/tables/disks.ts';
import { holdingsOf } from '../../store/tables/holdings.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { makeAction } from './instances/actions.ts';
import { type ActHandler, type Caller, deadlineWithin, type TaskDeps, notifyAdministrators } from '../kernel/ports.ts';
import { makeImages, type ImageDeps } from '../regions/ports.ts';
import {
  locateDisks,
  type HeldDisks,
  destroyDisk,
  makeSnapshots,
  makeVolumes,
  type VolumeDeps,
} from '../storage/ports.ts';

type DeleteAccountsDeps = TaskDeps & VolumeDeps & ImageDeps & { heldDisks: HeldDisks };

const DESTROY_DEADLINE_MS = 600_000;
const AGAIN_MS = 10_000;

/** Ignores refusals: the resource is going already, or still used, and the next run tries again. */
const unlessRefused = async (request: Promise<unknown>): Promise<void> => {
  await request.catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error;
  });
};

export const makeDeleteAccounts = (deps: DeleteAccountsDeps): ActHandler => {
  const { store, time, log, regions } = deps;
  const terminate = makeAction('terminate', deps);
  const { delete: deleteVolume } = makeVolumes(deps);
  const { delete: deleteSnapshot } = makeSnapshots(deps);
  const { delete: deleteImage } = makeImages(deps);

  async function deleteResources(owner: Caller): Promise<boolean> {
    const { accountId } = owner;
    const held = await holdingsOf(store.read, accountId);
    for (const { id: instanceId } of held.instances) await unlessRefused(terminate(owner, { instanceId }, null));
    if (await hasUncleanInstances(store.read, accountId)) return false;
    for (const { id } of held.snapshots) await unlessRefused(deleteSnapshot(owner, { id }, null));
    for (const { id } of held.volumes) await unlessRefused(deleteVolume(owner, { id }, null));
    for (const { id: imageId } of held.images) await unlessRefused(deleteImage(owner, { imageId }, null));
    if (await hasStoredResources(store.read, accountId)) return false;
    return deleteLeftDisks(accountId);
  }

  /** Shared folders have no row but their disk's. */
  async function deleteLeftDisks(accountId: string): Promise<boolean> {
    const signal = deadlineWithin(deps, DESTROY_DEADLINE_MS);
    for (const disk of await disksOfOwner(store.read, accountId)) {
      for (const located of await locateDisks(store.read, regions.of(disk.regionId), [disk]))
        if (!(await destroyDisk({ heldDisks: deps.heldDisks, signal }, located))) return false;
      await store.write((tx) => deleteDisks(tx, [disk]));
    }
    return true;
  }

  return async ({ id }) => {
    const account = await accountById(store.read, id);
    if (!account || account.deleteAtMs === null || account.deleteAtMs > time.now()) return account?.deleteAtMs ?? null;
    const { username } = account;
    const owner: Caller = { accountId: id, username, email: '', roles: [], sessionId: null, scopes: null };
    if (!(await deleteResources(owner))) return time.now() + AGAIN_MS;
    await store.write(async (tx) => {
      await lockAccount(tx, id);
      await deleteAccountRows(tx, id, time.now());
      const event = { kind: 'account.deleted', subjectId: id, data: { username } };
      await notifyAdministrators(tx, { atMs: time.now(), ...event });
    });
    log.warn({ accountId: id, username }, 'an account was deleted');
    return null;
  };
};
