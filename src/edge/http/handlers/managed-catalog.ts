/** The catalog for administrators. */
import type { Control } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

export const catalogAdminHandlers = ({ offeredTypes, offeredImages, regionAdministration }: Control) =>
  ({
    async listTypes(_, { body: { pager } }) {
      const { types, totalEntries } = await offeredTypes.list(pager);
      return { types, pager: { ...pager, totalEntries } };
    },
    createType: (caller, { body, idempotency }) => offeredTypes.create(caller, body, idempotency),
    updateType: (caller, { body: { fromUnixMs: fromMs, ...body }, idempotency }) =>
      offeredTypes.update(caller, { ...body, fromMs }, idempotency),
    retireType: (caller, { body, idempotency }) => offeredTypes.retire(caller, body, idempotency),
    async listCatalogImages(_, { body: { pager } }) {
      const { images, totalEntries } = await offeredImages.list(pager);
      return { images, pager: { ...pager, totalEntries } };
    },
    createCatalogImage: (caller, { body, idempotency }) => offeredImages.create(caller, body, idempotency),
    updateCatalogImage: (caller, { body, idempotency }) => offeredImages.update(caller, body, idempotency),
    retireCatalogImage: (caller, { body, idempotency }) => offeredImages.retire(caller, body, idempotency),
    async listManagedRegions(_, { body: { pager } }) {
      const { regions, totalEntries } = await regionAdministration.list(pager);
      return { regions, pager: { ...pager, totalEntries } };
    },
    createRegion: (caller, { body, idempotency }) => regionAdministration.create(caller, body, idempotency),
    retireRegion: (caller, { body, idempotency }) => regionAdministration.retire(caller, body, idempotency),
    getRegion: (_, { body: { regionId } }) => regionAdministration.get(regionId),
    updateRegion: (caller, { body: { fromUnixMs: fromMs, ...body }, idempotency }) =>
      regionAdministration.update(caller, { ...body, fromMs }, idempotency),
  }) satisfies Partial<ClosedHandlers>;
