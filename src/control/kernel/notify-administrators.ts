import { ADMIN_ROLE } from '../../domain/access/roles.ts';
import { administrators } from '../../store/tables/accounts.ts';
import { appendEvent, type NewEvent } from '../../store/tables/events.ts';
import type { Db } from '../../store/store.ts';

export async function notifyAdministrators(tx: Db, event: Omit<NewEvent, 'accountId' | 'counts'>): Promise<void> {
  for (const accountId of await administrators(tx, ADMIN_ROLE)) await appendEvent(tx, { ...event, accountId });
}
