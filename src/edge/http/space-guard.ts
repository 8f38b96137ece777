/**
 * While the disk of the database is full, refuses requests that can wait, before their body is
 * read. The rest is stored in the space reserve (`store/db/space-reserve.ts`).
 */
import type { FastifyInstance } from 'fastify';
import type { Route } from '../../contract/route.ts';
import { routeNames, routeOf, type RouteName } from '../../contract/routes.ts';
import type { Control } from '../../control/index.ts';
import { checkThen } from './refusal-reply.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Stores something that can wait. */
    needsSpace?: boolean;
  }
}

/** Logins, looks inside, stops and revocations, beside all deletions. */
const essential: ReadonlySet<RouteName> = new Set<RouteName>([
  'login',
  'logout',
  'revokeLogin',
  'revokeSession',
  'changePassword',
  'open',
  'openTerminal',
  'openExec',
  'exec',
  'closeTerminal',
  'stop',
  'terminate',
  'cancelOperation',
  'stopAnyInstance',
  'terminateAnyInstance',
  'drainRegion',
  'handleStray',
  'disableAccount',
  'unsharePort',
]);

const essentialRoutes: ReadonlySet<Route> = new Set(
  routeNames.filter((name) => essential.has(name) || name.startsWith('delete')).map(routeOf),
);

export const needsSpace = (route: Route): boolean => !route.reads && !essentialRoutes.has(route);

export function mountSpaceGuard(app: FastifyInstance, { refuseIfFull }: Pick<Control, 'refuseIfFull'>): void {
  // After authorization: strangers learn nothing of the disk.
  app.addHook('preParsing', ({ routeOptions }, _reply, _payload, done) =>
    checkThen(() => {
      if (routeOptions.config.needsSpace === true) refuseIfFull();
    }, done),
  );
}
