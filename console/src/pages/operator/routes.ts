import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import {
  readAccountSearch,
  readAccountsSearch,
  readAuditSearch,
  readCatalogSearch,
  readFleetSearch,
} from './search.ts';

export const fleetRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/fleet',
  validateSearch: readFleetSearch,
  component: lazyRouteComponent(() => import('./fleet/fleet-page.tsx'), 'FleetPage'),
});

export const accountsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/accounts',
  validateSearch: readAccountsSearch,
  component: lazyRouteComponent(() => import('./accounts/accounts-page.tsx'), 'AccountsPage'),
});

export const accountRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/accounts/$accountId',
  validateSearch: readAccountSearch,
  component: lazyRouteComponent(() => import('./accounts/account-page.tsx'), 'AccountPage'),
});

export const catalogRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/catalog',
  validateSearch: readCatalogSearch,
  component: lazyRouteComponent(() => import('./catalog/catalog-page.tsx'), 'CatalogPage'),
});

export const healthRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/health',
  component: lazyRouteComponent(() => import('./health/health-page.tsx'), 'HealthPage'),
});

export const orphansRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/orphans',
  component: lazyRouteComponent(() => import('./orphans/orphans-page.tsx'), 'OrphansPage'),
});

export const auditRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operator/audit',
  validateSearch: readAuditSearch,
  component: lazyRouteComponent(() => import('./audit/audit-page.tsx'), 'AuditPage'),
});
