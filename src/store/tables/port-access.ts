/** What owners have set about ports: beside passes, in a column that none of them writes. */
import { portAccesses, type AccessByPort } from '../../domain/port-access.ts';
import type { InstanceRow } from './instances.ts';
import type { Db } from '../store.ts';

export function portAccessOf({ portAccess }: Pick<InstanceRow, 'portAccess'>): AccessByPort {
  // Nearly always, and it is read at each look at a route.
  if (portAccess === '{}') return new Map();
  const kept: Record<string, string> = JSON.parse(portAccess);
  return new Map(
    Object.entries(kept).flatMap(([port, text]) =>
      portAccesses.filter((access) => access === text).map((access) => [Number(port), access]),
    ),
  );
}

export async function writePortAccess(tx: Db, instanceId: string, settings: AccessByPort): Promise<void> {
  const portAccess = JSON.stringify(Object.fromEntries(settings));
  await tx.updateTable('instance').set({ portAccess }).where('id', '=', instanceId).execute();
}
