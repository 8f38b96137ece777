/** Instance types, prices and regions: docs/interface.md §10, catalog. */
import { z } from 'zod';
import { chargeModes, regionInfo } from './instance.ts';
import { volumeTypes } from './volume.ts';

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

export const regionListAnswer = z.strictObject({
  regions: z.array(
    regionInfo.extend({
      /** What the region's engine and storage can do, and whether the engine answers. */
      engine: z.strictObject({ name: z.string(), answers: z.boolean(), text: z.string() }),
      capabilities: z.record(z.string(), z.union([z.string(), z.boolean()])),
      /** Where volumes of each type lie, how much of it may still be promised, and what it can do (`storage/contract.ts`). */
      volumeTypes: z.array(
        z.strictObject({
          type: z.enum(volumeTypes),
          pool: z.string(),
          freeGB: z.number().int(),
          sizeLimit: z.enum(['hard', 'soft']),
          usage: z.enum(['instant', 'walk']),
          copies: z.enum(['atomic', 'live']),
          dockerInside: z.boolean(),
        }),
      ),
    }),
  ),
});
