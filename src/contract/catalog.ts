/** What can be launched, where, and at what price: `interface-notes.md`, rows catalog and other lists. */
import { z } from 'zod';
import { pagerAnswer } from './common.ts';
import { chargeModes, regionInfo } from './instance.ts';

export const catalogAnswer = z.strictObject({
  instanceInfos: z.array(
    z.strictObject({
      gpuName: z.string(),
      isSpotInstance: z.boolean(),
      regionInfos: z.array(
        z.strictObject({
          regionId: z.string(),
          regionName: z.string(),
          instanceTypeInfos: z.array(
            z.strictObject({
              instanceTypeId: z.string(),
              gpuNum: z.number().int(),
              stockStatus: z.enum(['InStock', 'OutOfStock']),
              price: z.array(z.strictObject({ chargeMode: z.enum(chargeModes), price: z.number() })),
              instanceTypeName: z.string(),
              cpuCores: z.number(),
              memoryGB: z.number(),
              rootDiskGB: z.number(),
              dataDiskGB: z.number(),
            }),
          ),
        }),
      ),
    }),
  ),
});

export const imageListAnswer = z.strictObject({
  images: z.array(
    z.strictObject({
      imageId: z.string(),
      name: z.string(),
      architecture: z.string(),
      isPublic: z.string(),
      tags: z.array(z.string()).nullable(),
      type: z.string(),
      /** Whether the image is on the region's engine: `Ready`, `Absent`, `Preparing` (with `progress`), `Failed`. */
      state: z.enum(['Ready', 'Absent', 'Preparing', 'Failed']),
      /** What is being done, or why it failed; '' when there is nothing to say. */
      stateText: z.string(),
      /** 0 to 100 while `Preparing`. */
      progressPercent: z.number(),
    }),
  ),
  pager: pagerAnswer,
});

export const regionListAnswer = z.strictObject({
  regions: z.array(
    regionInfo.extend({
      /** What the region's engine and storage can do, and whether the engine answers. */
      engine: z.strictObject({ name: z.string(), answers: z.boolean(), text: z.string() }),
      capabilities: z.record(z.string(), z.union([z.string(), z.boolean()])),
    }),
  ),
});
