/** The caller's own instance, which has to run: what is asked for is done inside it. */
import type { InstanceId } from '../../domain/ids.ts';
import { instanceNotFound, Refusal } from '../../domain/refusal.ts';
import { instanceFromRow, ownedInstanceRow } from '../../store/tables/instances.ts';
import type { Store } from '../../store/store.ts';
import type { Caller } from '../base/caller.ts';

async function owned(
  store: Pick<Store, 'read'>,
  { accountId }: Caller,
  id: string,
): Promise<{ id: InstanceId; status: string }> {
  const row = await ownedInstanceRow(store.read, accountId, id);
  if (!row) throw instanceNotFound();
  const { id: instanceId, observed } = instanceFromRow(row);
  return { id: instanceId, status: observed.status };
}

export async function requireOwned(store: Pick<Store, 'read'>, caller: Caller, id: string): Promise<InstanceId> {
  return (await owned(store, caller, id)).id;
}

export async function requireRunning(store: Pick<Store, 'read'>, caller: Caller, id: string): Promise<InstanceId> {
  const instance = await owned(store, caller, id);
  if (instance.status === 'Running') return instance.id;
  const words = `instance ${id} is ${instance.status}, and nothing can be run in it; send this again once it is Running`;
  throw new Refusal('not_now', words);
}
