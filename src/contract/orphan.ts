/** What an engine or a pool of disks holds of ours and nobody wished, for administrators: `docs/operate.md`, section "What nobody wished". */
import { z } from 'zod';
import { label, plainText } from './common.ts';

export const orphanKinds = ['instance', 'docker', 'network', 'image', 'disk'] as const;
export const orphanHandlings = ['policy', 'stop', 'delete'] as const;
const orphanActions = ['adopt', 'stop', 'delete'] as const;

const orphan = z.strictObject({
  strayId: z.string(),
  kind: z.enum(orphanKinds),
  regionId: z.string(),
  /** What the engine calls it; of a disk `<pool>/<kind of disk>/<id>`. */
  engineName: z.string(),
  /** On its label: the instance, also for its Docker, the account of a network, the instance that an image was saved from. Of a disk its id. */
  subjectId: z.string(),
  /** The account on its label. */
  ownerId: z.string(),
  /** '' when there is no such account. */
  ownerName: z.string(),
  /** What an instance was made from; '' for all else. */
  imageRef: z.string(),
  running: z.boolean(),
  /** By the engine's clock; 0 when it does not say. */
  createdAt: z.number().int(),
  firstSeenAt: z.number().int(),
  lastSeenAt: z.number().int(),
  handling: z.enum(orphanHandlings),
  /** How much longer it is watched before it is deleted; null: it is kept. */
  deletedInSeconds: z.number().int().nullable(),
  /** What became of the last try to do something with it. */
  note: z.string(),
});

export const orphanListAnswer = z.strictObject({ strays: z.array(orphan) });

export const orphanHandleRequest = z.object({
  strayId: plainText(1000),
  action: z.enum(orphanActions),
  /** To adopt what was made for an account that is gone. */
  username: plainText(320).optional(),
  /** To adopt: the type that it is counted and billed as. */
  instanceTypeId: plainText(100).optional(),
  /** To adopt; its id when left out. */
  name: label(100).optional(),
});

/** `instanceId` is of the instance that was adopted, else null. */
export const orphanHandleAnswer = z.strictObject({ strayId: z.string(), instanceId: z.string().nullable() });
