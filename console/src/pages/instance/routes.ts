import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import { readInstanceViewSearch } from './search.ts';

export const instanceRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/instances/$instanceId',
  validateSearch: readInstanceViewSearch,
  loader: textsOf('access', 'instance', 'launch', 'settings'),
  component: lazyRouteComponent(() => import('./instance-page.tsx'), 'InstancePage'),
});
