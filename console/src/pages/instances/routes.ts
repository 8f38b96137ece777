import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { readInstanceSearch } from './search.ts';

export const instancesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/instances',
  validateSearch: readInstanceSearch,
  component: lazyRouteComponent(() => import('./instances-page.tsx'), 'InstancesPage'),
});
