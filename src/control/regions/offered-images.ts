/** Images of the operator, for administrators. Instances keep the reference of their launch. */
import { imageId } from '../../domain/kernel/ids.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import {
  countUsers,
  insertManagedImage,
  lockManagedImage,
  managedImageById,
  managedImages,
  writeManagedImage,
  type ManagedImage,
} from '../../store/tables/catalog-rows.ts';
import { requestRefresh } from '../../store/tables/images.ts';
import type { Db } from '../../store/store.ts';
import { uncheckedText, type CheckImage, type ImageCheck } from './images/check-image.ts';
import { commonArchitecture, readOwnRef } from './images/images.ts';
import {
  changeCatalog,
  recordChange,
  refuseFull,
  refuseStale,
  sentMembers,
  type Affected,
  type CatalogChangeDeps,
  type Versioned,
} from './catalog-change.ts';
import { requestReconcile, type Caller, type Mutation, type Pager } from '../kernel/ports.ts';

interface Fields {
  name: string;
  ref: string;
  tags: string[];
}

export interface CatalogImage extends Fields {
  imageId: string;
  version: number;
  retired: boolean;
  architecture: string;
  type: string;
  createdAtUnixMs: number;
}

type Change = { imageId: string } & Versioned;
interface ChangeAnswer {
  image: CatalogImage;
  affected: Affected;
  warnings: string[];
}

export interface OfferedImages {
  list(pager: Pager): Promise<{ images: CatalogImage[]; totalEntries: number }>;
  create: Mutation<Fields, { image: CatalogImage; warnings: string[] }>;
  update: Mutation<Change & { [Name in keyof Fields]?: Fields[Name] | undefined }, ChangeAnswer>;
  refresh: Mutation<{ imageId: string }, { imageId: string }>;
  retire: Mutation<Change & { retired: boolean }, ChangeAnswer>;
}

export interface OfferedImageDeps extends CatalogChangeDeps {
  checkImage: CheckImage;
}

export const makeOfferedImages = (deps: OfferedImageDeps): OfferedImages => ({
  async list({ currentPage, pageSize }) {
    const { rows, totalEntries } = await managedImages(deps.store.read, (currentPage - 1) * pageSize, pageSize);
    return { images: rows.map(listed), totalEntries };
  },

  async create(caller, { name, ref: written, tags }, idempotency) {
    const { ref } = readOwnRef(written, deps.regions);
    const check = await deps.checkImage(undefined, ref);
    return changeCatalog(deps, caller, idempotency, async (tx, _, nowMs) => {
      refuseUnfit(written, check);
      refuseFull('images of the operator', (await managedImages(tx, 0, 0)).totalEntries, 'image');
      const architecture = commonArchitecture(deps.regions);
      const id = imageId(deps.randomUuid());
      const facts = { id, name, ref, tags, architecture, isPublic: true, type: 'notebook', createdAtMs: nowMs };
      const image = { ...facts, version: 1, isRetired: false };
      await insertManagedImage(tx, image);
      await recordChange(tx, caller, { kind: 'image.offered', subjectId: id, data: { name, ref } }, nowMs);
      return { image: listed(image), warnings: warningsOf(check) };
    });
  },

  async update(caller, { imageId: id, version, dryRun, ...fields }, idempotency) {
    const { ref: written, ...others } = fields;
    const ref = written === undefined ? undefined : readOwnRef(written, deps.regions).ref;
    const check = ref === undefined ? null : await deps.checkImage(undefined, ref);
    return changeCatalog(deps, caller, idempotency, async (tx, _, nowMs) => {
      const before = await readImage(tx, id, version);
      const sent = sentMembers({ ...others, ref });
      if (Object.keys(sent).length === 0)
        throw new Refusal('field_missing', 'field "name" is not set; or send "ref" or "tags"');
      if (check) refuseUnfit(written ?? '', check);
      const warnings = check ? warningsOf(check) : [];
      return write(
        { tx, caller, nowMs, dryRun, kind: 'image.updated' },
        { before, next: { ...before, ...sent } },
        warnings,
      );
    });
  },

  refresh: (caller, { imageId: id }, idempotency) =>
    requestReconcile(deps, { subject: 'image' }, caller.accountId, idempotency, async (tx, nowMs) => {
      const row = await lockManagedImage(tx, id);
      if (!row) throw notOfOperator(id);
      await requestRefresh(tx, row, nowMs);
      const data = { name: row.name, ref: row.ref };
      await recordChange(tx, caller, { kind: 'image.refreshWished', subjectId: id, data }, nowMs);
      return { imageId: id };
    }),

  retire: (caller, { imageId: id, version, dryRun, retired }, idempotency) =>
    changeCatalog(deps, caller, idempotency, async (tx, _, nowMs) => {
      const before = await readImage(tx, id, version);
      const next = { ...before, isRetired: retired };
      return write(
        { tx, caller, nowMs, dryRun, kind: retired ? 'image.retired' : 'image.offered' },
        { before, next },
        [],
      );
    }),
});

interface WriteContext {
  tx: Db;
  caller: Caller;
  nowMs: number;
  dryRun: boolean;
  kind: string;
}

async function write(
  { tx, caller, nowMs, dryRun, kind }: WriteContext,
  { before, next }: { before: ManagedImage; next: ManagedImage },
  warnings: string[],
): Promise<ChangeAnswer> {
  const affected = { ...(await countUsers(tx, { imageId: next.id })), atOtherPrice: 0 };
  if (dryRun) return { image: listed(next), affected, warnings };
  const written = { ...next, version: next.version + 1 };
  await writeManagedImage(tx, written, { isOtherRef: next.ref !== before.ref });
  await recordChange(tx, caller, { kind, subjectId: next.id, data: { name: next.name, ref: next.ref } }, nowMs);
  return { image: listed(written), affected, warnings };
}

const notOfOperator = (id: string): Refusal =>
  new Refusal(
    'not_found',
    `image ${id} is not of the operator; POST /api/admin/image/list lists the operator's images`,
  );

async function readImage(tx: Db, id: string, version: number): Promise<ManagedImage> {
  const image = await managedImageById(tx, id);
  if (!image) throw notOfOperator(id);
  refuseStale(`image ${image.name}`, image.version, version, listed(image));
  return image;
}

function refuseUnfit(written: string, check: ImageCheck): void {
  if (check.kind === 'refused')
    throw new Refusal('field_value', `field "ref" is ${JSON.stringify(written)}: ${check.why}`);
}

const warningsOf = (check: ImageCheck): string[] => (check.kind === 'unchecked' ? [uncheckedText(check.why)] : []);

const listed = ({ id, isRetired, createdAtMs, ...image }: ManagedImage): CatalogImage => ({
  imageId: id,
  version: image.version,
  retired: isRetired,
  name: image.name,
  ref: image.ref,
  architecture: image.architecture,
  tags: image.tags,
  type: image.type,
  createdAtUnixMs: createdAtMs,
});
