import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import { readImagesSearch } from './search.ts';

export const imagesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/images',
  validateSearch: readImagesSearch,
  loader: textsOf('images'),
  component: lazyRouteComponent(() => import('./images-page.tsx'), 'ImagesPage'),
});
