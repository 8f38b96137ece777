/** Access settings of ports, in a column that reconciles never write. */
import type { AccessByPort } from '../../domain/port-access.ts';
import { parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import type { InstanceRow } from './instance-columns.ts';
import { accessByPort } from './json-schemas.ts';

export function portAccessOf({ id, portAccess }: Pick<InstanceRow, 'id' | 'portAccess'>): AccessByPort {
  // The usual case, read with each look at a route.
  if (portAccess === '{}') return new Map();
  const byPort = parseJson(accessByPort, portAccess, { table: 'instance', id, column: 'portAccess' });
  return new Map(Object.entries(byPort).map(([port, access]) => [Number(port), access]));
}

export async function writePortAccess(tx: Db, instanceId: string, settings: AccessByPort): Promise<void> {
  const portAccess = JSON.stringify(Object.fromEntries(settings));
  await tx.updateTable('instance').set({ portAccess }).where('id', '=', instanceId).execute();
}
