/** Disks that the operator gives up for lost: an instance whose disk is gone does not start again with an empty one until that is said. */
import type { Logger } from 'pino';
import { z } from 'zod';
import { diskKey, type DiskId } from '../domain/disk.ts';
import { markProvisioned } from '../store/tables/disks.ts';
import type { Store } from '../store/store.ts';

const NAME = /^(?<kind>data|docker|shared)\/(?<id>[^\s]+)$/;

/** Of volumes and snapshots it is said by deleting them. */
export const lostDisks = z.string().transform((text, ctx): DiskId[] =>
  text.split(',').flatMap((part) => {
    const { kind, id = '' } = NAME.exec(part.trim())?.groups ?? {};
    if (kind === 'data' || kind === 'docker' || kind === 'shared') return [{ kind, id }];
    const message = `must name disks as data/<instanceId>, docker/<instanceId> or shared/<account>/<region>, separated by commas`;
    ctx.addIssue({ code: 'custom', message });
    return [];
  }),
);

/** They are made anew, empty, when they are next wanted. One that is there after all stays as it is. */
export async function giveUpForLost(store: Store, disks: readonly DiskId[], log: Pick<Logger, 'warn'>): Promise<void> {
  if (disks.length === 0) return;
  await store.write((tx) => markProvisioned(tx, disks, false));
  log.warn({ disks: disks.map(diskKey) }, 'disks are given up for lost: those that are gone are made anew, empty');
}
