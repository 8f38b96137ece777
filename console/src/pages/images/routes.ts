import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';

export const imagesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/images',
  component: lazyRouteComponent(() => import('./images-page.tsx'), 'ImagesPage'),
});
