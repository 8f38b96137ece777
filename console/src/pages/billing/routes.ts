import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route.ts';
import { textsOf } from '../../texts/texts.ts';
import { readBillingSearch } from './search.ts';

export const billingRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/billing',
  validateSearch: readBillingSearch,
  loader: textsOf('billing', 'budgets'),
  component: lazyRouteComponent(() => import('./billing-page.tsx'), 'BillingPage'),
});
