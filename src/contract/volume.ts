/** `interface.md` §2.2, §4.3 and §4.4: storage volumes. */
import { z } from 'zod';
import { id, pagerAnswer } from './common.ts';

export const volumeTypes = ['filesystem', 'highspeedstorage'] as const;
const MAX_VOLUME_GB = 100_000;
const MAX_NAME = 64;

/** Letters and digits of any script, space, dot, dash and underscore: safe in a path, a label and a sentence. Kept in NFC. */
export const volumeName = z
  .string()
  .refine(
    (text) =>
      /^[\p{L}\p{N}][\p{L}\p{M}\p{N} ._-]*$/u.test(text) && text.trim() === text && [...text].length <= MAX_NAME,
    {
      error: `must be 1 to ${MAX_NAME} letters, digits, spaces, dots, dashes or underscores, and start with a letter or digit`,
    },
  )
  .transform((text) => text.normalize('NFC'));

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

export const volumeCreateRequest = z.object({
  name: volumeName,
  sizeGB: z.number().int().min(1).max(MAX_VOLUME_GB),
  region: id,
  volumeType: z.enum(volumeTypes),
});
export const volumeCreateAnswer = z.strictObject({ volume });

export const volumeListAnswer = z.strictObject({ volumeList: z.array(volume), pager: pagerAnswer });

export const volumeIdBody = z.object({ id });
export const volumeIdAnswer = z.strictObject({ id: z.string() });
