/** Rows for the catalog's administrators. */
import * as catalog from './catalog-admin.ts';
import * as regions from './region-admin.ts';
import { pageRequest } from './instance.ts';
import { adminRoute, operatorReadRoute } from './route.ts';

const write = { idempotent: true } as const;
const change = { ...write, versioned: true } as const;
const lasting = { scope: 'instances' } as const;

export const catalogAdminRoutes = {
  listTypes: operatorReadRoute('/admin/type/list', pageRequest, catalog.typeListAnswer, {
    compressed: true,
    summary: 'List instance types with versions and prices, retired ones too (operators)',
  }),
  createType: adminRoute('/admin/type/create', catalog.typeCreateRequest, catalog.typeCreateAnswer, {
    ...write,
    summary: 'Offer an instance type (administrators)',
  }),
  updateType: adminRoute('/admin/type/update', catalog.typeUpdateRequest, catalog.typeChangeAnswer, {
    ...change,
    summary: 'Change name, size or prices of an instance type for new launches (administrators)',
  }),
  retireType: adminRoute('/admin/type/retire', catalog.typeRetireRequest, catalog.typeChangeAnswer, {
    ...change,
    summary: 'Refuse new launches of an instance type, or offer it again; instances stay (administrators)',
  }),
  listCatalogImages: operatorReadRoute('/admin/image/list', pageRequest, catalog.managedImageListAnswer, {
    compressed: true,
    summary: 'List images of the operator with versions and references, retired ones too (operators)',
  }),
  createCatalogImage: adminRoute(
    '/admin/image/create',
    catalog.managedImageCreateRequest,
    catalog.managedImageCreateAnswer,
    {
      ...write,
      lasting,
      summary: 'Offer an image of a registry to all accounts; the registry is asked for it (administrators)',
    },
  ),
  updateCatalogImage: adminRoute(
    '/admin/image/update',
    catalog.managedImageUpdateRequest,
    catalog.managedImageChangeAnswer,
    { ...change, lasting, summary: 'Change name, reference or tags of an image for new launches (administrators)' },
  ),
  retireCatalogImage: adminRoute(
    '/admin/image/retire',
    catalog.managedImageRetireRequest,
    catalog.managedImageChangeAnswer,
    { ...change, summary: 'Refuse new launches of an image, or offer it again; instances stay (administrators)' },
  ),
  listManagedRegions: operatorReadRoute('/admin/region/list', pageRequest, regions.regionListAnswer, {
    compressed: true,
    summary: 'List regions with versions and settings, retired ones too (operators)',
  }),
  getRegion: operatorReadRoute('/admin/region/get', regions.regionBody, regions.regionAnswer, {
    summary: 'Show a region with its version and off-peak windows (operators)',
  }),
  createRegion: adminRoute('/admin/region/create', regions.regionCreateRequest, regions.regionCreateAnswer, {
    ...write,
    lasting,
    summary: 'Add a region whose engine answers (administrators)',
  }),
  updateRegion: adminRoute('/admin/region/update', regions.regionUpdateRequest, regions.regionChangeAnswer, {
    ...change,
    lasting,
    summary: 'Change name, place, domain, off-peak windows or engine of a region (administrators)',
  }),
  retireRegion: adminRoute('/admin/region/retire', regions.regionRetireRequest, regions.regionChangeAnswer, {
    ...change,
    summary: 'Refuse new launches and volumes in a region, or take them again; what is there stays (administrators)',
  }),
} as const;
