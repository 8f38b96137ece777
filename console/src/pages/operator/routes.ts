import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { onlyFor } from '../../app/rights.ts';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import {
  readAccountSearch,
  readAccountsSearch,
  readAuditSearch,
  readCatalogSearch,
  readFleetSearch,
  readHealthSearch,
} from './search.ts';

export const fleetRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/fleet',
  validateSearch: readFleetSearch,
  beforeLoad: onlyFor('operator'),
  loader: textsOf('accounts', 'catalog', 'fleet', 'operator', 'volumes'),
  component: lazyRouteComponent(() => import('./fleet/fleet-page.tsx'), 'FleetPage'),
});

export const accountsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/accounts',
  validateSearch: readAccountsSearch,
  beforeLoad: onlyFor('admin'),
  loader: textsOf('accounts', 'billing', 'operator'),
  component: lazyRouteComponent(() => import('./accounts/accounts-page.tsx'), 'AccountsPage'),
});

export const accountRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/accounts/$accountId',
  validateSearch: readAccountSearch,
  beforeLoad: onlyFor('admin'),
  loader: textsOf('accounts', 'billing', 'budgets', 'operator', 'volumes'),
  component: lazyRouteComponent(() => import('./accounts/account-page.tsx'), 'AccountPage'),
});

export const catalogRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/catalog',
  validateSearch: readCatalogSearch,
  beforeLoad: onlyFor('operator'),
  loader: textsOf('accounts', 'catalog', 'images', 'launch', 'operator'),
  component: lazyRouteComponent(() => import('./catalog/catalog-page.tsx'), 'CatalogPage'),
});

export const healthRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/health',
  validateSearch: readHealthSearch,
  beforeLoad: onlyFor('operator'),
  loader: textsOf('health'),
  component: lazyRouteComponent(() => import('./health/health-page.tsx'), 'HealthPage'),
});

export const orphansRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/orphans',
  beforeLoad: onlyFor('operator'),
  loader: textsOf('orphans'),
  component: lazyRouteComponent(() => import('./orphans/orphans-page.tsx'), 'OrphansPage'),
});

export const auditRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/audit',
  validateSearch: readAuditSearch,
  beforeLoad: onlyFor('admin'),
  loader: textsOf('audit'),
  component: lazyRouteComponent(() => import('./audit/audit-page.tsx'), 'AuditPage'),
});
