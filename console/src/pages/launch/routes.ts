import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import { readLaunchSearch } from './search.ts';
import { dropWritten } from './written.ts';

export const launchRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/launch',
  validateSearch: readLaunchSearch,
  loader: textsOf('launch', 'images'),
  onLeave: dropWritten,
  component: lazyRouteComponent(() => import('./launch-page.tsx'), 'LaunchPage'),
});
