/** Settings of disks: `BERTH_POOL`, the pools of the volume types, and `BERTH_LOST_DISKS`. */
import { z } from 'zod';
import type { DiskId } from '../domain/storage/disk.ts';
import type { PoolRules } from '../domain/storage/pool.ts';

const storageEngines = ['image-file', 'directory'] as const;
export type StorageEngine = (typeof storageEngines)[number];

/** Settings of one pool; null means default. */
export interface PoolConfig extends Pick<PoolRules, 'sizeGB' | 'overcommit'> {
  path: string | null;
  engine: StorageEngine | null;
  /** Whether volumes get all their blocks at once; null: where the file system supports it. */
  thick: boolean | null;
}

const EXAMPLE = 'path=/srv/fast,engine=image-file,size=2000,overcommit=1.5,thick=no';
export const MAX_GB = 10_000_000;
const MAX_OVERCOMMIT = 1_000;

const members = z.strictObject({
  path: z.string().startsWith('/').optional(),
  engine: z.enum(storageEngines).optional(),
  size: z.coerce.number().int().min(1).max(MAX_GB).optional(),
  overcommit: z.coerce.number().min(1).max(MAX_OVERCOMMIT).optional(),
  thick: z.enum(['yes', 'no']).optional(),
});

/**
 * Parses `path=…,engine=image-file|directory,size=<GB>,overcommit=<factor>,thick=yes|no`, each
 * optional.
 */
export const poolConfig = z.string().transform((text, ctx): PoolConfig => {
  const pairs = text.split(',').map((part) => part.trim().split('='));
  const read = members.safeParse(Object.fromEntries(pairs.map(([name = '', ...value]) => [name, value.join('=')])));
  const twice = new Set(pairs.map(([name]) => name)).size !== pairs.length;
  if (!read.success || twice) {
    const why = twice ? 'a member is set twice' : (read.error?.issues[0]?.message ?? '');
    const message = `must look like ${EXAMPLE}: an absolute path, whole GB, and only these members (${why})`;
    ctx.addIssue({ code: 'custom', message });
    return z.NEVER;
  }
  const { path = null, engine = null, size = null, overcommit = 1, thick } = read.data;
  if (thick === 'yes' && (overcommit > 1 || engine === 'directory')) {
    const why =
      overcommit > 1 ? `overcommit=${overcommit} allocates more than there is` : 'plain folders have no blocks';
    const message = `says thick=yes, but ${why}: leave one of the two out`;
    ctx.addIssue({ code: 'custom', message });
    return z.NEVER;
  }
  return { path, engine, sizeGB: size, overcommit, thick: thick === undefined ? null : thick === 'yes' };
});

const LOST_DISK = /^(?<kind>data|docker|shared)\/(?<id>[^\s]+)$/;

/** Disks that the operator declares lost. Lost volumes and snapshots are deleted instead. */
export const lostDisks = z.string().transform((text, ctx): DiskId[] =>
  text.split(',').flatMap((part) => {
    const { kind, id = '' } = LOST_DISK.exec(part.trim())?.groups ?? {};
    if (kind === 'data' || kind === 'docker' || kind === 'shared') return [{ kind, id }];
    const message =
      'must name disks as data/<instanceId>, docker/<instanceId> or shared/<account>/<region>, separated by commas';
    ctx.addIssue({ code: 'custom', message });
    return [];
  }),
);
