/** Use cases of images: the catalog's, and those of an account, invisible to other accounts. */
import type { imageStates } from '../../../domain/regions/catalog.ts';
import { isLocalRef, isUnderPrefix, parseImageRef, type ImageRef } from '../../../domain/regions/image-ref.ts';
import type { Limits } from '../../../domain/compute/instance-states.ts';
import type { InstanceSpec } from '../../../domain/compute/instance.ts';
import { beginOperation, endOperation, FIRST_GENERATION, operationId } from '../../../domain/compute/operation.ts';
import { refusalOfSave } from '../../../domain/compute/desired-state.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import {
  countOwnImages,
  deleteOwnImageRow,
  lockOwnImage,
  insertOwnImage,
  ownImageFromRow,
  ownImageRows,
  instancesUsingImage,
  requestImageDeletion,
  requestRefresh,
  type OwnImage,
} from '../../../store/tables/images.ts';
import { lockInstance, instanceFromRow } from '../../../store/tables/instances.ts';
import { parseOperation } from '../../../store/tables/json-schemas.ts';
import { archiveOperation } from '../../../store/tables/operations.ts';
import type { Db } from '../../../store/store.ts';
import { knownImages } from '../../../store/tables/image-facts.ts';
import { unknownImage, type KnownImage } from '../../../domain/regions/image-facts.ts';
import { inRegion, overallOf, type ImageDetails } from './image-details.ts';
import type { ImageState, ImagePulls } from './image-pulls.ts';
import { uncheckedText, type CheckImage } from './check-image.ts';
import { refuseLocalRegistry } from './registries.ts';
import { lockOwnAccount, requireQuota } from '../../access/ports.ts';
import {
  type CatalogSnapshot,
  type UseCaseDeps,
  idempotentWrite,
  requestReconcile,
  refuseWithoutSaving,
  type RegionDrivers,
  type Regions,
  type Caller,
  type LongRunning,
  type Mutation,
  type Pager,
} from '../../kernel/ports.ts';

export interface ListedImage {
  imageId: string;
  name: string;
  architecture: string;
  isPublic: string;
  tags: string[] | null;
  type: string;
  /** Reference the account registered it under; '' for images of the operator. */
  ref: string;
  sizeBytes: number;
  state: (typeof imageStates)[number];
  stateText: string;
  progressPercent: number;
  digest: string;
  builtAtUnixMs: number;
  isNewerAvailable: boolean;
  details: ImageDetails | null;
  /** Regions in which the image can be launched. */
  regions: RegionImage[];
}

export interface RegionImage extends ListedState {
  region: string;
  /** Architecture of the processors there; '' before the engine has answered. */
  architecture: string;
  digest: string;
  isNewerAvailable: boolean;
}

export interface Images {
  list(caller: Caller, pager: Pager): Promise<{ images: ListedImage[]; totalEntries: number }>;
  create: Mutation<{ name: string; ref: string }, { imageId: string }>;
  /** Saves the root disk of an instance as an image, which can be launched once Ready. */
  save: LongRunning<{ instanceId: string; name: string }, { imageId: string }>;
  delete: LongRunning<{ imageId: string }, { imageId: string }>;
  refresh: LongRunning<{ imageId: string }, { imageId: string }>;
}

export interface ImageDeps extends UseCaseDeps {
  imagePulls: Pick<ImagePulls, 'stateOf'>;
  localRegistries: boolean;
  checkImage: CheckImage;
  limits: Pick<Limits, 'imageRecheckMs'>;
}

const MAX_NAMED_USERS = 5;

export const imageNotFound = (id: string): Refusal =>
  new Refusal('not_found', `image ${id} not found; POST /api/image/list lists the available images`);

export const makeImages = (deps: ImageDeps): Images => ({
  list: (caller, { currentPage, pageSize }) => listPage(deps, caller.accountId, (currentPage - 1) * pageSize, pageSize),
  create: createImage(deps),
  save: saveImage(deps),
  delete: deleteImage(deps),
  refresh: refreshImage(deps),
});

async function listPage(deps: ImageDeps, accountId: string, offset: number, limit: number) {
  const { store, readCatalog } = deps;
  const catalogImages = [...(await readCatalog()).images.values()];
  const ofPage = catalogImages.slice(offset, offset + limit);
  const more = { offset: Math.max(0, offset - catalogImages.length), limit: limit - ofPage.length };
  const rows = more.limit > 0 ? await ownImageRows(store.read, accountId, more.offset, more.limit) : [];
  const known = await knownImages(
    store.read,
    [...ofPage, ...rows].map(({ id }) => id),
  );
  const factsOf = (id: string): KnownImage => known.get(id) ?? unknownImage;
  const shown = ofPage.map((image) => ({
    ...listed(image, inRegions(deps, { ref: image.ref }, factsOf(image.id)), factsOf(image.id)),
    isPublic: String(image.isPublic),
  }));
  const own = rows.map((row) => {
    const image = ownImageFromRow(row);
    const pulled = inRegions(deps, { ref: image.ref, ownerId: accountId }, factsOf(image.id));
    const regions = pulled
      .filter(({ region }) => image.regionId === null || image.regionId === region)
      .map((one) => ({ ...one, ...ownState(image, one) }));
    const overall = regions.length === 0 ? ownState(image, ABSENT) : undefined;
    const shownFacts = listed(image, regions, factsOf(image.id));
    return { ...shownFacts, ...overall, ref: image.ref, sizeBytes: image.sizeBytes || shownFacts.sizeBytes };
  });
  return {
    images: [...shown, ...own],
    totalEntries: catalogImages.length + (await countOwnImages(store.read, accountId)),
  };
}

const createImage =
  (deps: ImageDeps): Images['create'] =>
  async ({ accountId }, { name, ref: written }, idempotency) => {
    const { regions, localRegistries, randomUuid } = deps;
    const { ref, server } = readOwnRef(written, regions);
    if (!localRegistries) refuseLocalRegistry('ref', written, server);
    const check = await deps.checkImage(accountId, ref);
    const architecture = commonArchitecture(regions);
    return idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
      if (check.kind === 'refused')
        throw new Refusal('field_value', `field "ref" is ${JSON.stringify(written)}: ${check.why}`);
      await refuseTooMany(tx, accountId);
      const id = randomUuid();
      const facts = { id, ownerId: accountId, name, ref, architecture, tags: [], type: 'notebook' };
      const isUnchecked = check.kind === 'unchecked';
      const unchecked = isUnchecked
        ? {
            text: uncheckedText(check.why),
            againAtMs: check.isFinal ? null : nowMs + deps.limits.imageRecheckMs,
          }
        : null;
      const digest = check.kind === 'fits' ? check.digest : '';
      await insertOwnImage(tx, { ...facts, createdAtMs: nowMs, from: null, unchecked, digest });
      await appendEvent(tx, { accountId, atMs: nowMs, kind: 'image.created', subjectId: id, data: { name, ref } });
      return { imageId: id };
    });
  };

const saveImage =
  (deps: ImageDeps): Images['save'] =>
  ({ accountId }, { instanceId, name }, idempotency) =>
    requestReconcile(deps, { subject: 'image' }, accountId, idempotency, async (tx, nowMs) => {
      const row = await lockInstance(tx, accountId, instanceId);
      if (!row) throw instanceNotFound();
      const { regionId } = row;
      const instance = instanceFromRow(row);
      const why = refusalOfSave(instance);
      if (why) throw new Refusal('not_now', `cannot save instance ${instanceId} as an image: ${why}`);
      const drivers = deps.regions.of(regionId);
      refuseWithoutSaving(drivers);
      await refuseTooMany(tx, accountId);
      const id = deps.randomUuid();
      const { architecture, tags, type } = instance.spec.image;
      const facts = { id, ownerId: accountId, name, ref: `${drivers.savedPrefix}/${id}:1`, architecture, tags, type };
      const from = { instanceId, regionId, operation: beginOperation('saveImage', 'user', nowMs) };
      await insertOwnImage(tx, { ...facts, createdAtMs: nowMs, from, unchecked: null, digest: '' });
      const data = { name, instanceId };
      await appendEvent(tx, { accountId, atMs: nowMs, kind: 'image.saveWished', subjectId: id, data });
      return { imageId: id, operationId: operationId(id, FIRST_GENERATION) };
    });

const deleteImage =
  (deps: ImageDeps): Images['delete'] =>
  async ({ accountId }, { imageId: id }, idempotency) => {
    const { images } = await deps.readCatalog();
    return requestReconcile(deps, { subject: 'image' }, accountId, idempotency, async (tx, nowMs) => {
      const row = await lockOwnImage(tx, accountId, id);
      if (!row) throw unknownOrNotOwn(images, id);
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
          const before = { subjectId: id, generation, operation: parseOperation(operation, 'image', id) };
          await archiveOperation(tx, accountId, before, nowMs);
        }
        await requestImageDeletion(tx, { id, generation: next, operation: removal }, nowMs);
      }
      const data = { name: row.name };
      await appendEvent(tx, { accountId, atMs: nowMs, kind: 'image.deleted', subjectId: id, data });
      return { imageId: id, operationId: operationId(id, next) };
    });
  };

const refreshImage =
  (deps: ImageDeps): Images['refresh'] =>
  async ({ accountId }, { imageId: id }, idempotency) => {
    const { images } = await deps.readCatalog();
    return requestReconcile(deps, { subject: 'image' }, accountId, idempotency, async (tx, nowMs) => {
      const row = await lockOwnImage(tx, accountId, id);
      if (!row) throw unknownOrNotOwn(images, id);
      if (row.fromInstanceId !== null)
        throw new Refusal(
          'not_now',
          `image ${id} was saved from an instance, so no registry has a newer one; save the instance again`,
        );
      const generation = await requestRefresh(tx, row, nowMs);
      return { imageId: id, operationId: operationId(id, generation) };
    });
  };

function unknownOrNotOwn(catalogImages: CatalogSnapshot['images'], id: string): Refusal {
  const catalogImage = catalogImages.get(id);
  return catalogImage === undefined
    ? imageNotFound(id)
    : new Refusal(
        'forbidden',
        `image ${id} (${catalogImage.name}) belongs to the operator; choose one of your own images`,
      );
}

/** Locks the row of an own image. An image of another account is `not_found`. */
export async function resolveImage(
  tx: Db,
  { images }: Pick<CatalogSnapshot, 'images'>,
  caller: Pick<Caller, 'accountId'>,
  request: { imageId: string; region: string },
): Promise<InstanceSpec['image']> {
  const catalogImage = images.get(request.imageId);
  if (catalogImage) return catalogImage;
  const row = await lockOwnImage(tx, caller.accountId, request.imageId);
  if (!row) throw imageNotFound(request.imageId);
  const image = ownImageFromRow(row);
  const { state, stateText, regionId, fromInstanceId } = image;
  if (state === 'Saving')
    throw new Refusal(
      'not_now',
      `image ${image.id} is not ready: it is still being saved; launch when POST /api/image/list shows the state Ready`,
    );
  if (state === 'Failed' && fromInstanceId !== null)
    throw new Refusal(
      'not_now',
      `image ${image.id} could not be saved (${stateText}); delete it, and save the instance again`,
    );
  if (regionId !== null && regionId !== request.region)
    throw new Refusal(
      'field_value',
      `field "imageId": image ${image.id} is stored in region ${regionId}; launch there, or choose another image`,
    );
  return imageOfSpec(image);
}

/** Leaves out what the spec of an instance does not store. */
export function imageOfSpec(image: OwnImage): InstanceSpec['image'] {
  const { id, name, ref, architecture, isPublic, tags, type } = image;
  return { id, name, ref, architecture, isPublic, tags, type };
}

type ListedState = Pick<ListedImage, 'state' | 'stateText' | 'progressPercent'>;

const ABSENT: ImageState = { state: 'Absent', stateText: '', progressPercent: 0 };

/** A reference has a variant for the processors of each region. '' before the first answer. */
export const architectureOf = ({ health }: Pick<RegionDrivers, 'health'>): string => health.probe?.architecture ?? '';

/** '' where regions have several. */
export function commonArchitecture(regions: Regions): string {
  const [first = '', ...others] = new Set(regions.all().map(architectureOf).filter(Boolean));
  return others.length === 0 ? first : '';
}

type Pulled = ImageState & Omit<RegionImage, keyof ListedState>;

const inRegions = (
  { regions, imagePulls }: ImageDeps,
  image: Parameters<ImagePulls['stateOf']>[1],
  known: KnownImage,
): Pulled[] =>
  regions
    .all()
    .filter((drivers) => !isMissingLocally(image.ref, drivers))
    .map((drivers) => ({
      ...inRegion(known, drivers.regionId),
      region: drivers.regionId,
      architecture: architectureOf(drivers),
      ...imagePulls.stateOf(drivers.engine, image),
    }));

/** Whether the image is one of Berth's own that a region neither has nor builds. */
export const isMissingLocally = (ref: string, { health }: Pick<RegionDrivers, 'health'>): boolean =>
  isLocalRef(ref) && health.probe?.localImages?.has(ref) === false;

/** Says most about an image that one region has and another has not. */
const byNews: readonly ListedState['state'][] = ['Preparing', 'Saving', 'Ready', 'Failed', 'Absent'];

const newest = (regions: readonly ListedState[]): ListedState => {
  const { state, stateText, progressPercent } =
    regions.toSorted((a, b) => byNews.indexOf(a.state) - byNews.indexOf(b.state))[0] ?? ABSENT;
  return { state, stateText, progressPercent };
};

const listed = (
  image: Pick<OwnImage, 'id' | 'name' | 'architecture' | 'tags' | 'type'>,
  regions: RegionImage[],
  known: KnownImage,
): ListedImage => ({
  imageId: image.id,
  name: image.name,
  architecture: image.architecture,
  isPublic: 'false',
  tags: image.tags.length > 0 ? image.tags : null,
  type: image.type,
  ref: '',
  ...overallOf(
    known,
    regions.map(({ region }) => region),
  ),
  ...newest(regions),
  regions,
});

/**
 * A registered image has the state of its pulls, or what a check says; a saved image has the state
 * of its row.
 */
function ownState({ state, stateText, fromInstanceId }: OwnImage, pulled: ImageState): ListedState {
  if (state === 'Deleting') return pulled;
  if (fromInstanceId !== null) return { state, stateText, progressPercent: 0 };
  if (pulled.state !== 'Absent' || stateText === '') return pulled;
  return { ...pulled, state: state === 'Failed' ? state : pulled.state, stateText };
}

/** Refuses references under the prefixes of root disks: these may belong to other accounts. */
export function readOwnRef(written: string, regions: Regions): ImageRef {
  const read = parseImageRef(written);
  const right = 'write it as registry.example.org/name:tag, or name:tag for docker.io';
  if (typeof read === 'string')
    throw new Refusal('field_value', `field "ref" is ${JSON.stringify(written.slice(0, 300))}: ${read}; ${right}`);
  const reservedPrefixes = regions.all().flatMap(({ archivePrefix, savedPrefix }) => [archivePrefix, savedPrefix]);
  if (reservedPrefixes.some((prefix) => isUnderPrefix(read.ref, prefix)))
    throw new Refusal(
      'field_value',
      `field "ref" is ${JSON.stringify(written)}: the path is reserved for saved root disks; choose a saved image from POST /api/image/list`,
    );
  return read;
}

async function refuseTooMany(tx: Db, accountId: string): Promise<void> {
  await lockOwnAccount(tx, accountId);
  await requireQuota(tx, accountId, 'images', await countOwnImages(tx, accountId));
}

/** A saved image has no other copy: an instance launched with it could not start again. */
function refuseUsed(id: string, users: readonly string[]): void {
  if (users.length === 0) return;
  const more = users.length > MAX_NAMED_USERS ? ` and ${users.length - MAX_NAMED_USERS} more` : '';
  const named = users.slice(0, MAX_NAMED_USERS).join(', ') + more;
  throw new Refusal('in_use', `image ${id} is needed to start ${named}; terminate these instances first`);
}
