/** Places of the console. Each page is loaded when somebody goes there. */
import { createRoute, createRouter, redirect } from '@tanstack/react-router';
import { Failed } from '../parts/trouble.tsx';
import { accessRoute } from '../pages/access/routes.ts';
import { activityRoute } from '../pages/activity/routes.ts';
import { billingRoute } from '../pages/billing/routes.ts';
import { imagesRoute } from '../pages/images/routes.ts';
import { instanceRoute } from '../pages/instance/routes.ts';
import { instancesRoute } from '../pages/instances/routes.ts';
import { launchRoute } from '../pages/launch/routes.ts';
import {
  accountRoute,
  accountsRoute,
  auditRoute,
  catalogRoute,
  fleetRoute,
  healthRoute,
  orphansRoute,
} from '../pages/operator/routes.ts';
import { settingsRoute } from '../pages/settings/routes.ts';
import { volumeRoute, volumesRoute } from '../pages/volumes/routes.ts';
import { welcomeRoute } from '../pages/welcome/routes.ts';
import { base } from './base.ts';
import { rootRoute } from './root-route.ts';

const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/instances', replace: true });
  },
});

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    homeRoute,
    instancesRoute,
    launchRoute,
    instanceRoute,
    volumesRoute,
    volumeRoute,
    imagesRoute,
    billingRoute,
    accessRoute,
    activityRoute,
    settingsRoute,
    welcomeRoute,
    fleetRoute,
    accountsRoute,
    accountRoute,
    catalogRoute,
    healthRoute,
    orphansRoute,
    auditRoute,
  ]),
  basepath: base || '/',
  defaultPreload: 'intent',
  scrollRestoration: true,
  defaultErrorComponent: Failed,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
