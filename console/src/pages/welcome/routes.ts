import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { readWelcomeSearch } from './search.ts';

export const welcomeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/welcome',
  validateSearch: readWelcomeSearch,
  component: lazyRouteComponent(() => import('./welcome-page.tsx'), 'WelcomePage'),
});
