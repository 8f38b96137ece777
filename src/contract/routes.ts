/**
 * The route table: everything that crosses the wire below `/api`. Server, access checks, OpenAPI
 * document and typed client derive from it.
 */
import type { z } from 'zod';
import { launchRoutes, instanceRoutes, openRoutes } from './compute/instance.ts';
import { volumeRoutes } from './storage/volume.ts';
import { fileRoutes, fileByteRoutes } from './storage/file.ts';
import { operationRoutes } from './compute/operation.ts';
import { stopPolicyRoutes, keepAliveRoutes } from './compute/stop-policy.ts';
import { wakeRoutes } from './compute/wake.ts';
import { metricsRoutes } from './compute/metrics.ts';
import { figuresRoutes } from './compute/figures.ts';
import { logRoutes } from './compute/log.ts';
import { execRoutes, terminalRoutes } from './compute/exec.ts';
import { portRoutes } from './access/port.ts';
import {
  instanceEnvironmentRoutes,
  accountEnvironmentRoutes,
  installationEnvironmentRoutes,
} from './compute/environment.ts';
import { catalogRoutes, regionRoutes } from './regions/catalog.ts';
import { imageRoutes } from './regions/image.ts';
import { loginRoutes, keyRoutes, createUserRoutes } from './access/account.ts';
import { templateRoutes } from './compute/template.ts';
import { bookRoutes, bookFileRoutes } from './money/billing.ts';
import { webhookRoutes } from './delivery/webhook.ts';
import { orphanRoutes } from './compute/orphan.ts';
import { heldDiskRoutes } from './storage/held-disk.ts';
import { taskRoutes } from './task.ts';
import { auditRoutes } from './access/audit.ts';
import { fleetRoutes } from './regions/fleet.ts';
import { operatorInstanceRoutes } from './compute/operator.ts';
import { operatorVolumeRoutes } from './storage/operator-volume.ts';
import { cardRoutes } from './regions/card.ts';
import { drainRoutes } from './regions/drain.ts';
import { egressRoutes } from './compute/egress.ts';
import { identityRoutes } from './access/identity.ts';
import { managedAccountRoutes } from './access/managed-account.ts';
import { quotaRoutes } from './access/quota.ts';
import { passkeyLoginRoutes, secondFactorRoutes } from './access/second-factor.ts';
import { budgetRoutes } from './money/budget.ts';
import { creditRoutes } from './money/credit.ts';
import { priceRoutes } from './regions/price.ts';
import { catalogAdminRoutes } from './regions/catalog-admin.ts';
import { regionAdminRoutes } from './regions/region-admin.ts';
import { eventRoutes } from './delivery/events.ts';
import type { JsonRoute, Route } from './route.ts';

export const BASE_PATH = '/api';
export const ACCESS_COOKIE = 'AccessToken';

/** In the order of the API document. */
export const routes = {
  ...launchRoutes,
  ...volumeRoutes,
  ...fileRoutes,
  ...instanceRoutes,
  ...operationRoutes,
  ...stopPolicyRoutes,
  ...wakeRoutes,
  ...metricsRoutes,
  ...figuresRoutes,
  ...logRoutes,
  ...execRoutes,
  ...keepAliveRoutes,
  ...openRoutes,
  ...portRoutes,
  ...instanceEnvironmentRoutes,
  ...catalogRoutes,
  ...imageRoutes,
  ...regionRoutes,
  ...loginRoutes,
  ...passkeyLoginRoutes,
  ...secondFactorRoutes,
  ...accountEnvironmentRoutes,
  ...keyRoutes,
  ...templateRoutes,
  ...bookRoutes,
  ...webhookRoutes,
  ...createUserRoutes,
  ...orphanRoutes,
  ...heldDiskRoutes,
  ...taskRoutes,
  ...auditRoutes,
  ...installationEnvironmentRoutes,
  ...fleetRoutes,
  ...operatorInstanceRoutes,
  ...operatorVolumeRoutes,
  ...cardRoutes,
  ...drainRoutes,
  ...egressRoutes,
  ...managedAccountRoutes,
  ...identityRoutes,
  ...quotaRoutes,
  ...budgetRoutes,
  ...creditRoutes,
  ...priceRoutes,
  ...catalogAdminRoutes,
  ...regionAdminRoutes,
  ...eventRoutes,
  ...terminalRoutes,
  ...fileByteRoutes,
  ...bookFileRoutes,
} as const;

export type RouteName = keyof typeof routes;
type NamesOf<Kind> = { [Name in RouteName]: (typeof routes)[Name]['kind'] extends Kind ? Name : never }[RouteName];
export type JsonRouteName = NamesOf<'json'>;
export type StreamRouteName = Exclude<RouteName, JsonRouteName>;
export type OpenRouteName = {
  [Name in JsonRouteName]: (typeof routes)[Name]['who'] extends 'anyone' ? Name : never;
}[JsonRouteName];
export type OperationRouteName = {
  [Name in JsonRouteName]: (typeof routes)[Name]['operation'] extends true ? Name : never;
}[JsonRouteName];

export type BodyOf<Name extends JsonRouteName> = z.output<(typeof routes)[Name]['body']>;
export type InputOf<Name extends JsonRouteName> = z.input<(typeof routes)[Name]['body']>;
export type AnswerOf<Name extends JsonRouteName> = z.output<(typeof routes)[Name]['answer']>;

const jsonTable: {
  [Name in JsonRouteName]: JsonRoute<z.ZodType<BodyOf<Name>>, z.ZodType<AnswerOf<Name>>>;
} = routes;
const table: Record<RouteName, Route> = routes;

/** A row, for code that is generic in its name. */
export const jsonRouteOf = <Name extends JsonRouteName>(name: Name) => jsonTable[name];
export const routeOf = (name: RouteName): Route => table[name];

/** In the order of the table. */
export const routeNames = Object.keys(routes).filter((name): name is RouteName => name in routes);
export const jsonRouteNames = routeNames.filter((name): name is JsonRouteName => table[name].kind === 'json');

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'] as const;
type Method = (typeof METHODS)[number];
const PARAMETER = /\{(\w+)\}/g;

/** The server answers HEAD wherever GET is a JSON route. */
const takes = ({ kind, method }: Route, asked: Method): boolean =>
  method === asked || (asked === 'HEAD' && method === 'GET' && kind === 'json');

/** Methods by path, each path as a pattern below `/api`: `{path}` spans slashes. */
const methodsByPath = [...Map.groupBy(Object.values(table), ({ path }) => path)].map(([path, rows]) => ({
  pattern: new RegExp(`^${path.replaceAll(PARAMETER, (_, name) => (name === 'path' ? '.*' : '[^/]+'))}$`, 's'),
  methods: METHODS.filter((method) => rows.some((row) => takes(row, method))),
}));

/** Methods that a path below `/api` accepts; empty for an unknown path. */
export const methodsOf = (path: string): readonly string[] =>
  methodsByPath.find(({ pattern }) => pattern.test(path))?.methods ?? [];
