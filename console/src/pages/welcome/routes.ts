import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { onlyFor } from '../../app/rights.ts';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import { readWelcomeSearch } from './search.ts';

export const welcomeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/welcome',
  validateSearch: readWelcomeSearch,
  beforeLoad: onlyFor('admin'),
  loader: textsOf('images', 'launch', 'settings', 'welcome'),
  component: lazyRouteComponent(() => import('./welcome-page.tsx'), 'WelcomePage'),
});
