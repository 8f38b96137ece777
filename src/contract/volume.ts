/** Storage volumes: docs/interface.md §2.2, §4.3 and §4.4. */
import { z } from 'zod';
import { id, pagerAnswer, volumeName } from './common.ts';
import { operation } from './operation.ts';
import { consistencies, snapshot } from './snapshot.ts';

export const volumeTypes = ['filesystem', 'highspeedstorage'] as const;
const MAX_VOLUME_GB = 100_000;

export const volume = z.strictObject({
  id: z.string(),
  volumeName: z.string(),
  region: z.string(),
  volumeType: z.string(),
  sizeGB: z.number(),
  usageGB: z.number(),
  status: z.string(),
  username: z.string(),
});

const sizeGB = z.number().int().min(1).max(MAX_VOLUME_GB);

export const volumeCreateRequest = z.object({
  name: volumeName,
  sizeGB,
  region: id,
  volumeType: z.enum(volumeTypes),
});
export const volumeCreateAnswer = z.strictObject({ volume });

export const volumeListAnswer = z.strictObject({ volumeList: z.array(volume), pager: pagerAnswer });

export const volumeIdBody = z.object({ id });
export const volumeIdAnswer = z.strictObject({ id: z.string() });

/** `hard`: writes past the size fail; `soft`: usage is measured, and nothing stops a writer. */
const sizeLimit = z.enum(['hard', 'soft']);

export const volumeExpandRequest = z.object({ id, sizeGB });
export const volumeExpandAnswer = z.strictObject({ volume, sizeLimit });

export const volumeRenameRequest = z.object({ id, name: volumeName });

/** As large as what it is made of, and of the same type, where these are left out. */
export const volumeCopyRequest = z.object({
  id,
  name: volumeName,
  sizeGB: sizeGB.optional(),
  volumeType: z.enum(volumeTypes).optional(),
});

export const volumeGetAnswer = z.strictObject({
  volume,
  pool: z.string(),
  sizeLimit,
  /** Whether a snapshot taken now is of one moment (`atomic`), or each file is as the copy finds it (`live`). */
  copies: z.enum(consistencies),
  /** Instances that mount it and are not terminated. */
  mountedBy: z.array(z.string()),
  /** Newest first, at most a hundred. */
  snapshots: z.array(snapshot),
  /** What it is a copy of; null for one that began empty. */
  madeFrom: z.strictObject({ kind: z.enum(['volume', 'snapshot']), id: z.string() }).nullable(),
  operation,
});
