/** Creates one-time links to a gateway session for an instance or a port. */
import { allowsAccount } from '../../domain/port-access.ts';
import { instanceNotFound } from '../../domain/refusal.ts';
import { instanceRow } from '../../store/tables/instances.ts';
import type { Store } from '../../store/store.ts';
import type { Grants } from '../access/grants.ts';
import { routeOf } from '../routing/routes.ts';
import type { Instances } from './instances.ts';

export interface OpenDeps {
  store: Store;
  grant: Grants['grant'];
  openUrl: (link: { instanceId: string; port: number | undefined; key: string }) => string;
}

export const makeOpen =
  ({ store, grant, openUrl }: OpenDeps): Instances['open'] =>
  async (caller, { instanceId, port }) => {
    const row = await instanceRow(store.read, instanceId);
    if (!row || row.desired === 'released') throw instanceNotFound();
    const portAccess = (port !== undefined && routeOf(row).access.get(port)) || 'owner';
    if (!allowsAccount(portAccess, caller.accountId, row.ownerId)) throw instanceNotFound();
    return { url: openUrl({ instanceId, port, key: await grant(caller, instanceId) }) };
  };
