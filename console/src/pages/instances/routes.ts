import { createRoute } from '@tanstack/react-router';
import { queryClient } from '../../app/query-client.ts';
import { rootRoute } from '../../app/root-route.ts';
import { pageQuery } from '../../parts/paged-table.tsx';
import { InstancesPage } from './instances-page.tsx';
import { instancesOf } from './list.ts';
import { readInstanceSearch } from './search.ts';

export const instancesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/instances',
  validateSearch: readInstanceSearch,
  loaderDeps: ({ search }) => search,
  // Asked for while the login is.
  loader: ({ deps }) => void queryClient.prefetchQuery(pageQuery(instancesOf(deps), 0)),
  // Home: loaded at once.
  component: InstancesPage,
});
