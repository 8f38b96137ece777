import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import { readAccessSearch } from './search.ts';

export const accessRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/access',
  validateSearch: readAccessSearch,
  loader: textsOf('access'),
  component: lazyRouteComponent(() => import('./access-page.tsx'), 'AccessPage'),
});
