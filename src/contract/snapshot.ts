/** Snapshots of volumes; all of it is ours. */
import { z } from 'zod';
import { id, pagerAnswer, volumeName } from './common.ts';

/** `atomic`: all of one moment, whatever was being written; `live`: each file as it was when the copy came to it. */
export const consistencies = ['atomic', 'live'] as const;
export const snapshotStatuses = ['Pending', 'Ready', 'Failed', 'Terminating'] as const;

export const snapshot = z.strictObject({
  id: z.string(),
  snapshotName: z.string(),
  volumeId: z.string(),
  /** As it was called then. */
  volumeName: z.string(),
  region: z.string(),
  volumeType: z.string(),
  /** Of the volume then: so much of the pool is promised to it. */
  sizeGB: z.number(),
  consistency: z.enum(consistencies),
  status: z.enum(snapshotStatuses),
  /** Why it Failed; else ''. */
  reason: z.string(),
  createdAt: z.number().int(),
  username: z.string(),
});

export const snapshotCreateRequest = z.object({ volumeId: id, name: volumeName });
export const snapshotCreateAnswer = z.strictObject({ snapshot });
export const snapshotListAnswer = z.strictObject({ snapshotList: z.array(snapshot), pager: pagerAnswer });
