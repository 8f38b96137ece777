import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import { readActivitySearch } from './search.ts';

export const activityRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/activity',
  validateSearch: readActivitySearch,
  loader: textsOf('activity', 'volumes'),
  component: lazyRouteComponent(() => import('./activity-page.tsx'), 'ActivityPage'),
});
