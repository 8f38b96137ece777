/**
 * Images: those on offer, and the account's own, which no other account can see or launch. An own one is named after what a
 * registry has, or saved from an instance; then its pass (`passes/image-pass.ts`) makes it, and removes it in the end.
 */
import { isUnderPrefix, parseImageRef, type ImageRef } from '../../domain/image-ref.ts';
import type { InstanceSpec } from '../../domain/instance.ts';
import { beginOperation, endOperation, FIRST_GENERATION, operationId } from '../../domain/operation.ts';
import { refusalOfSave } from '../../domain/own-image.ts';
import { instanceNotFound, Refusal } from '../../domain/refusal.ts';
import { appendEvent } from '../../store/tables/events.ts';
import {
  countOwnImages,
  deleteOwnImageRow,
  lockOwnImage,
  insertOwnImage,
  ownImageFromRow,
  ownImageRows,
  instancesUsingImage,
  requestImageDeletion,
  type OwnImage,
} from '../../store/tables/images.ts';
import { lockInstance, instanceFromRow } from '../../store/tables/instances.ts';
import { archiveOperation } from '../../store/tables/operations.ts';
import type { Db, Store } from '../../store/store.ts';
import { lockOwnAccount } from '../access/callers.ts';
import type { ImageState, ImagePulls } from './image-pulls.ts';
import type { CatalogSnapshot } from '../base/catalog-cache.ts';
import type { Idempotent } from '../base/idempotent.ts';
import { refuseWithoutSaving, type Regions } from '../base/regions.ts';
import { refuseLocalRegistry } from './registries.ts';
import type { Caller, Pager, Idempotency, StartedOperation } from '../base/caller.ts';

export interface ListedImage {
  imageId: string;
  name: string;
  architecture: string;
  isPublic: string;
  tags: string[] | null;
  type: string;
  /** What an own one is had by; '' for those of the operator. */
  ref: string;
  sizeBytes: number;
  state: 'Ready' | 'Absent' | 'Preparing' | 'Failed' | 'Saving';
  stateText: string;
  progressPercent: number;
}

export interface Images {
  /** Those on offer, then the caller's own. */
  list(caller: Caller, pager: Pager): Promise<{ images: ListedImage[]; totalEntries: number }>;
  /** An image of the caller's own, by its registry's name. */
  create(
    caller: Caller,
    body: { name: string; ref: string },
    idempotency: Idempotency | null,
  ): Promise<{ imageId: string }>;
  /** One that is saved from an instance; it can be launched once it is Ready. */
  save(
    caller: Caller,
    body: { instanceId: string; name: string },
    idempotency: Idempotency | null,
  ): Promise<{ imageId: string } & StartedOperation>;
  /** A saved one is removed by its pass; one that a registry has is gone at once. */
  delete(
    caller: Caller,
    body: { imageId: string },
    idempotency: Idempotency | null,
  ): Promise<{ imageId: string } & StartedOperation>;
}

export interface ImageDeps {
  store: Store;
  readCatalog: () => Promise<CatalogSnapshot>;
  regions: Regions;
  imagePulls: Pick<ImagePulls, 'stateOf'>;
  now: () => number;
  idempotent: Idempotent;
  randomUuid: () => string;
  /** Whether accounts may name registries that only the engine's own host reaches. */
  localRegistries: boolean;
  /** Wakes the images' loop. */
  wake: () => void;
}

const MOST = 200;
const NAMED_USERS = 5;

const notFound = (id: string): Refusal =>
  new Refusal('not_found', `image ${id} not found; POST /api/image/list names those on offer`);

export const makeImages = ({
  store,
  readCatalog,
  regions,
  imagePulls,
  now,
  idempotent,
  randomUuid,
  localRegistries,
  wake,
}: ImageDeps): Images => {
  async function page(accountId: string, offset: number, limit: number) {
    const offered = [...(await readCatalog()).images.values()];
    const shown = offered.slice(offset, offset + limit).map((image) => ({
      ...listed(image, imagePulls.stateOf({ ref: image.ref })),
      isPublic: String(image.isPublic),
    }));
    const more = { offset: Math.max(0, offset - offered.length), limit: limit - shown.length };
    const rows = more.limit > 0 ? await ownImageRows(store.read, accountId, more.offset, more.limit) : [];
    const own = rows.map((row) => {
      const image = ownImageFromRow(row);
      const pulled = imagePulls.stateOf({ ref: image.ref, ownerId: accountId });
      return { ...listed(image, ownState(image, pulled)), ref: image.ref, sizeBytes: image.sizeBytes };
    });
    return { images: [...shown, ...own], totalEntries: offered.length + (await countOwnImages(store.read, accountId)) };
  }

  return {
    list: (caller, { currentPage, pageSize }) => page(caller.accountId, (currentPage - 1) * pageSize, pageSize),

    async create({ accountId }, { name, ref: written }, idempotency) {
      const { ref, server } = ownRef(written, regions);
      if (!localRegistries) refuseLocalRegistry('ref', written, server);
      const architecture = regions.all().find(({ seen }) => seen.probe)?.seen.probe?.architecture ?? '';
      return store.write((tx) => {
        const nowMs = now();
        return idempotent(tx, accountId, idempotency, nowMs, async () => {
          await refuseTooMany(tx, accountId);
          const id = randomUuid();
          const facts = { id, ownerId: accountId, name, ref, architecture, tags: [], type: 'notebook' };
          await insertOwnImage(tx, { ...facts, createdAtMs: nowMs, from: null });
          await appendEvent(tx, { accountId, atMs: nowMs, kind: 'image.created', subjectId: id, data: { name, ref } });
          return { imageId: id };
        });
      });
    },

    async save({ accountId }, body, idempotency) {
      const answer = await store.write((tx) => {
        const nowMs = now();
        return idempotent(tx, accountId, idempotency, nowMs, async () => {
          const row = await lockInstance(tx, accountId, body.instanceId);
          if (!row) throw instanceNotFound();
          const instance = instanceFromRow(row);
          const why = refusalOfSave(instance);
          if (why) throw new Refusal('not_now', `can't save instance ${row.id} as an image: ${why}`);
          const drivers = regions.of(row.regionId);
          refuseWithoutSaving(drivers);
          await refuseTooMany(tx, accountId);
          const id = randomUuid();
          const { architecture, tags, type } = instance.spec.image;
          await insertOwnImage(tx, {
            id,
            ownerId: accountId,
            name: body.name,
            ref: `${drivers.savedPrefix}/${id}:1`,
            architecture,
            tags,
            type,
            createdAtMs: nowMs,
            from: {
              instanceId: row.id,
              regionId: row.regionId,
              operation: beginOperation('saveImage', 'user', nowMs),
            },
          });
          const data = { name: body.name, instanceId: row.id };
          await appendEvent(tx, { accountId, atMs: nowMs, kind: 'image.saveWished', subjectId: id, data });
          return { imageId: id, operationId: operationId(id, FIRST_GENERATION) };
        });
      });
      wake();
      return answer;
    },

    async delete({ accountId }, { imageId: id }, idempotency) {
      const answer = await store.write((tx) => {
        const nowMs = now();
        return idempotent(tx, accountId, idempotency, nowMs, async () => {
          const row = await lockOwnImage(tx, accountId, id);
          if (!row) throw await unknownOrNotOwn(id);
          const { generation, operation } = row;
          const next = generation + 1;
          const removal = beginOperation('deleteImage', 'user', nowMs);
          if (row.fromInstanceId === null) {
            await deleteOwnImageRow(tx, id);
            const done = endOperation(removal, 'Succeeded', nowMs);
            await archiveOperation(tx, accountId, { subjectId: id, generation: next, operation: done }, nowMs);
          } else {
            refuseUsed(id, await instancesUsingImage(tx, accountId, id));
            if (operation !== null) {
              const before = { subjectId: id, generation, operation: JSON.parse(operation) };
              await archiveOperation(tx, accountId, before, nowMs);
            }
            await requestImageDeletion(tx, { id, generation: next, operation: removal }, nowMs);
          }
          const data = { name: row.name };
          await appendEvent(tx, { accountId, atMs: nowMs, kind: 'image.deleted', subjectId: id, data });
          return { imageId: id, operationId: operationId(id, next) };
        });
      });
      wake();
      return answer;
    },
  };

  async function unknownOrNotOwn(id: string): Promise<Refusal> {
    const offered = (await readCatalog()).images.get(id);
    return offered === undefined
      ? notFound(id)
      : new Refusal(
          'forbidden',
          `image ${id} (${offered.name}) is the operator's; only images of your own can be deleted`,
        );
  }
};

/**
 * The image that a launch names: one on offer, or the caller's own, which is held until the launch is written. Another account's is
 * as unknown as one that never was.
 */
export async function resolveImage(
  tx: Db,
  { images }: Pick<CatalogSnapshot, 'images'>,
  caller: Pick<Caller, 'accountId'>,
  wish: { imageId: string; region: string },
): Promise<InstanceSpec['image']> {
  const offered = images.get(wish.imageId);
  if (offered) return offered;
  const row = await lockOwnImage(tx, caller.accountId, wish.imageId);
  if (!row) throw notFound(wish.imageId);
  const { state, stateText, regionId, ...image } = ownImageFromRow(row);
  if (state === 'Saving')
    throw new Refusal(
      'not_now',
      `image ${image.id} is not ready yet: it is still being saved; launch idempotent POST /api/image/list says Ready`,
    );
  if (state === 'Failed')
    throw new Refusal(
      'not_now',
      `image ${image.id} could not be saved (${stateText}); delete it, and save the instance again`,
    );
  if (regionId !== null && regionId !== wish.region)
    throw new Refusal(
      'field_value',
      `field "imageId": image ${image.id} lies in region ${regionId}; launch there, or choose another image`,
    );
  const { id, name, ref, architecture, isPublic, tags, type } = image;
  return { id, name, ref, architecture, isPublic, tags, type };
}

const listed = (
  image: Pick<OwnImage, 'id' | 'name' | 'architecture' | 'tags' | 'type'>,
  state: Pick<ListedImage, 'state' | 'stateText' | 'progressPercent'>,
): ListedImage => ({
  imageId: image.id,
  name: image.name,
  architecture: image.architecture,
  isPublic: 'false',
  tags: image.tags.length > 0 ? image.tags : null,
  type: image.type,
  ref: '',
  sizeBytes: 0,
  ...state,
});

/** One that a registry has is as its pulls are; one that is saved is what its row says. */
function ownState(
  { state, stateText, fromInstanceId }: OwnImage,
  pulled: ImageState,
): Pick<ListedImage, 'state' | 'stateText' | 'progressPercent'> {
  return fromInstanceId === null || state === 'Deleting' ? pulled : { state, stateText, progressPercent: 0 };
}

/** The engine's own images and other people's root disks are not to be had by their names. */
function ownRef(written: string, regions: Regions): ImageRef {
  const read = parseImageRef(written);
  const right = 'write it as registry.example.org/name:tag, or name:tag for docker.io';
  if (typeof read === 'string')
    throw new Refusal('field_value', `field "ref" is ${JSON.stringify(written.slice(0, 300))}: ${read}; ${right}`);
  const kept = regions.all().flatMap(({ archivePrefix, savedPrefix }) => [archivePrefix, savedPrefix]);
  if (kept.some((prefix) => isUnderPrefix(read.ref, prefix)))
    throw new Refusal(
      'field_value',
      `field "ref" is ${JSON.stringify(written)}: root disks are kept there, and none is to be had by its name; choose the saved image from POST /api/image/list`,
    );
  return read;
}

/** Under the account's lock, so that many at once don't pass together. */
async function refuseTooMany(tx: Db, accountId: string): Promise<void> {
  await lockOwnAccount(tx, accountId);
  const images = await countOwnImages(tx, accountId);
  if (images < MOST) return;
  throw new Refusal(
    'over_quota',
    `the account has ${images} images of its own, and may have ${MOST}; delete one first`,
  );
}

/** What is saved is nowhere else: an instance that was launched with it could not be started again. */
function refuseUsed(id: string, users: readonly string[]): void {
  if (users.length === 0) return;
  const more = users.length > NAMED_USERS ? ` and ${users.length - NAMED_USERS} more` : '';
  const named = users.slice(0, NAMED_USERS).join(', ') + more;
  throw new Refusal('in_use', `image ${id} is needed to start ${named}; terminate these first`);
}
