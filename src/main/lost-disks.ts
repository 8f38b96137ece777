/**
 * Disks that the operator declares lost (`BERTH_LOST_DISKS`); only these are replaced by empty
 * ones.
 */
import type { Logger } from 'pino';
import { z } from 'zod';
import { diskKey, type DiskId } from '../domain/disk.ts';
import { markProvisioned } from '../store/tables/disks.ts';
import type { Store } from '../store/store.ts';

const NAME = /^(?<kind>data|docker|shared)\/(?<id>[^\s]+)$/;

/** Lost volumes and snapshots are deleted instead. */
export const lostDisks = z.string().transform((text, ctx): DiskId[] =>
  text.split(',').flatMap((part) => {
    const { kind, id = '' } = NAME.exec(part.trim())?.groups ?? {};
    if (kind === 'data' || kind === 'docker' || kind === 'shared') return [{ kind, id }];
    const message = `must name disks as data/<instanceId>, docker/<instanceId> or shared/<account>/<region>, separated by commas`;
    ctx.addIssue({ code: 'custom', message });
    return [];
  }),
);

/** Lets the next use create the disks again, empty. A disk that exists stays as it is. */
export async function allowEmptyReplacements(
  store: Store,
  disks: readonly DiskId[],
  log: Pick<Logger, 'warn'>,
): Promise<void> {
  if (disks.length === 0) return;
  await store.write((tx) => markProvisioned(tx, disks, false));
  log.warn({ disks: disks.map(diskKey) }, 'disks are declared lost: missing ones will be created again, empty');
}
