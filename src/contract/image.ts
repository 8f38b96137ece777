/** Images of the operator and of the account (docs/interface.md §10, catalog). */
import { z } from 'zod';
import { id, label, pagerAnswer, plainText } from './common.ts';

export const imageListAnswer = z.strictObject({
  images: z.array(
    z.strictObject({
      imageId: z.string(),
      name: z.string(),
      architecture: z.string(),
      /** 'true' for those of the operator, 'false' for the account's own. */
      isPublic: z.string(),
      tags: z.array(z.string()).nullable(),
      type: z.string(),
      /** What an own one is had by; '' for those of the operator. */
      ref: z.string(),
      /** Of one that was saved, the layers it shares included; else 0. */
      sizeBytes: z.number(),
      /**
       * Whether the image is on the region's engine: `Ready`, `Absent`, `Preparing` (with `progressPercent`), `Failed`. One that is
       * saved from an instance is `Saving` first, and `Failed` when that did not succeed.
       */
      state: z.enum(['Ready', 'Absent', 'Preparing', 'Failed', 'Saving']),
      /** What is being done, or why it failed; '' when there is nothing to say. */
      stateText: z.string(),
      /** 0 to 100 while `Preparing`. */
      progressPercent: z.number(),
    }),
  ),
  pager: pagerAnswer,
});

const MAX_REF = 500;

export const imageIdBody = z.object({ imageId: id });
export const imageIdAnswer = z.strictObject({ imageId: z.string() });

/** What a good name is, is for `domain/image-ref.ts` to say. */
export const imageCreateRequest = z.object({ name: label(128), ref: plainText(MAX_REF) });
export const imageSaveRequest = z.object({ instanceId: id, name: label(128) });
