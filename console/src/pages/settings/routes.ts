import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';

export const settingsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/settings',
  loader: textsOf('settings'),
  component: lazyRouteComponent(() => import('./settings-page.tsx'), 'SettingsPage'),
});
