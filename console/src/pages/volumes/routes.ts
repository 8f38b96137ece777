import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import { readVolumeSearch, readVolumesSearch } from './search.ts';

export const volumesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/volumes',
  validateSearch: readVolumesSearch,
  loader: textsOf('volumes'),
  component: lazyRouteComponent(() => import('./volumes-page.tsx'), 'VolumesPage'),
});

export const volumeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/volumes/$volumeId',
  validateSearch: readVolumeSearch,
  loader: textsOf('files', 'volumes'),
  component: lazyRouteComponent(() => import('./volume-page.tsx'), 'VolumePage'),
});
