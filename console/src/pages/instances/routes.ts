import { createRoute } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { InstancesPage } from './instances-page.tsx';
import { readInstanceSearch } from './search.ts';

export const instancesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/instances',
  validateSearch: readInstanceSearch,
  // Home: loaded at once.
  component: InstancesPage,
});
