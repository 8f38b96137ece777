import { z } from 'zod';
import { unknownImage, type ImageFacts, type KnownImage } from '../../domain/regions/image-facts.ts';
import { nullableJson } from '../db/columns.ts';
import { locking } from '../db/dialect.ts';
import type { Db, Store } from '../store.ts';
import { texts } from './json-schemas.ts';

const imageFacts: z.ZodType<ImageFacts> = z.object({
  digests: texts,
  createdAtMs: z.number(),
  sizeBytes: z.number(),
  declares: z.object({
    entrypoint: texts,
    command: texts,
    user: z.string(),
    workingDir: z.string(),
    ports: z.array(z.number()),
    volumes: texts,
    healthCheck: texts,
  }),
  contains: z.object({ shell: z.boolean(), sshd: z.boolean(), jupyter: z.boolean() }).nullable(),
});
const knownImage: z.ZodType<KnownImage> = z.object({
  registryDigest: z.string(),
  regions: z.record(z.string(), imageFacts),
});
const column = nullableJson(knownImage);

const decode = ({ id, facts }: { id: string; facts: string | null }): KnownImage =>
  column.decode(facts, { table: 'image', id, column: 'facts' }) ?? unknownImage;

export async function knownImages(db: Db, ids: readonly string[]): Promise<Map<string, KnownImage>> {
  if (ids.length === 0) return new Map();
  const rows = await db.selectFrom('image').select(['id', 'facts']).where('id', 'in', ids).execute();
  return new Map(rows.map((row) => [row.id, decode(row)]));
}

export const encodeKnownImage = (known: KnownImage): string | null => column.encode(known);

export interface RefOfOwner {
  ref: string;
  ownerId: string | null;
}

export async function changeKnownImages(
  store: Pick<Store, 'read' | 'write'>,
  of: RefOfOwner,
  change: (known: KnownImage) => KnownImage,
  /** When an image at rest is compared with its registry; null: never. */
  compareAtMs: number | null = null,
): Promise<void> {
  const changed = async (db: Db, rows = rowsOf(db, of)) => {
    const found = await rows.execute();
    return found.map((row) => ({ ...row, next: column.encode(change(decode(row))) })).filter(isDifferent);
  };
  if ((await changed(store.read)).length === 0) return;
  await store.write(async (tx) => {
    for (const { id, next, dueAtMs } of await changed(tx, locking(tx, rowsOf(tx, of))))
      await tx
        .updateTable('image')
        .set({ facts: next, dueAtMs: dueAtMs ?? compareAtMs })
        .where('id', '=', id)
        .execute();
  });
}

const isDifferent = ({ facts, next }: { facts: string | null; next: string | null }): boolean => facts !== next;

function rowsOf(db: Db, { ref, ownerId }: RefOfOwner) {
  const ofRef = db
    .selectFrom('image')
    .select(['id', 'facts', 'dueAtMs'])
    .where('ref', '=', ref)
    .where('state', '!=', 'Deleting');
  const ofOwner = ownerId === null ? ofRef.where('ownerId', 'is', null) : ofRef.where('ownerId', '=', ownerId);
  return ofOwner.orderBy('id');
}

/** Digests granted to the account by the registry, under the reference. */
export async function grantedDigests(db: Db, ownerId: string, ref: string): Promise<string[]> {
  const rows = await rowsOf(db, { ref, ownerId }).execute();
  return rows.flatMap((row) => Object.values(decode(row).regions).flatMap(({ digests }) => digests));
}
