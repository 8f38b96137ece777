/**
 * Parts that changes of types, images and regions share. A change locks the regions, so that
 * changes and launches run one after the other, and needs the version that was read.
 */
import { Refusal } from '../../domain/kernel/refusal.ts';
import { appendEvent } from '../../store/tables/events.ts';
import type { ManagedRegion, Users } from '../../store/tables/catalog-rows.ts';
import type { Db } from '../../store/store.ts';
import { lockedRegions } from './due-prices.ts';
import { type Caller, type Idempotency, type UseCaseDeps, idempotentWrite } from '../kernel/ports.ts';

export interface CatalogChangeDeps extends UseCaseDeps {
  forgetCatalog: () => void;
}

/** Request that changes a row. `dryRun` answers what would happen. */
export interface Versioned {
  version: number;
  dryRun: boolean;
}

export type Affected = Users & { atOtherPrice: number };

/** Rows of each kind, retired ones included. */
export const MAX_CATALOG_ROWS = 1_000;

export async function changeCatalog<Answer>(
  deps: CatalogChangeDeps,
  { accountId }: Caller,
  idempotency: Idempotency | null,
  fn: (tx: Db, regions: ManagedRegion[], nowMs: number) => Promise<Answer>,
): Promise<Answer> {
  const answer = await idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) =>
    fn(tx, await lockedRegions(tx, nowMs), nowMs),
  );
  deps.forgetCatalog();
  return answer;
}

export const recordChange = (
  tx: Db,
  { accountId }: Caller,
  event: { kind: string; subjectId: string; data: object },
  nowMs: number,
) => appendEvent(tx, { accountId, atMs: nowMs, ...event });

/** `what` begins the sentence, such as `instance type cpu.1`. */
export function refuseStale(what: string, stored: number, sent: number, current: object): void {
  if (stored === sent) return;
  const message = `${what} has version ${stored}, and the request has version ${sent}: it was changed meanwhile. Compare the member "current" of this answer with your change, and send the change with version ${stored}`;
  throw new Refusal('precondition_failed', message, { current });
}

export function refuseFull(what: string, rows: number, path: string): void {
  if (rows < MAX_CATALOG_ROWS) return;
  const instead = `change a retired one with POST /api/admin/${path}/update, and offer it again with POST /api/admin/${path}/retire {"retired": false}`;
  throw new Refusal(
    'over_quota',
    `the catalog has ${rows} ${what}, retired ones included, and the limit is ${MAX_CATALOG_ROWS}; ${instead}`,
  );
}

/** Members that were sent. */
export const sentMembers = <Members extends object>(
  members: Members,
): { [Name in keyof Members]?: Exclude<Members[Name], undefined> } =>
  // Leaves out undefined members alone, as the type says.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
