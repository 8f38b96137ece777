/**
 * The route table: everything that crosses the wire below `/api`. Server, access checks, OpenAPI
 * document and typed client derive from it.
 */
import type { z } from 'zod';
import * as account from './account.ts';
import { accountRoutes } from './account-routes.ts';
import { billingRoutes } from './billing-routes.ts';
import { budgetRoutes } from './budget-routes.ts';
import * as catalog from './catalog.ts';
import { empty } from './common.ts';
import * as environment from './environment.ts';
import * as exec from './exec.ts';
import * as figures from './figures.ts';
import * as file from './file.ts';
import * as image from './image.ts';
import * as instance from './instance.ts';
import * as labels from './list-filters.ts';
import * as log from './log.ts';
import * as metrics from './metrics.ts';
import * as operation from './operation.ts';
import { accountAdminRoutes } from './account-admin-routes.ts';
import { adminRoutes } from './admin-routes.ts';
import { operatorRoutes } from './operator-routes.ts';
import { catalogAdminRoutes } from './catalog-admin-routes.ts';
import * as quote from './quote.ts';
import * as port from './port.ts';
import { decision, jsonRoute, operationRoute, readRoute } from './route.ts';
import type { JsonRoute, Route } from './route.ts';
import * as stopPolicy from './stop-policy.ts';
import { creditRoutes } from './credit-routes.ts';
import { priceRoutes } from './price-routes.ts';
import { quotaRoutes } from './quota-routes.ts';
import { templateRoutes } from './template-routes.ts';
import { streamRoutes } from './stream-routes.ts';
import * as volume from './volume.ts';
import { webhookRoutes } from './webhook-routes.ts';

export const BASE_PATH = '/api';
export const ACCESS_COOKIE = 'AccessToken';

const act = (name: string, summary: string) =>
  operationRoute(`/instance/${name}`, instance.instanceIdBody, instance.instanceIdAnswer, {
    errors: 'plain',
    summary,
    source: decision('instances'),
  });

export const routes = {
  launch: operationRoute('/instance/create', instance.launchRequest, instance.instanceIdAnswer, {
    waits: true,
    quoted: true,
    errors: 'plain',
    summary: 'Launch an instance',
    source: 'docs/interface.md §4.1',
  }),
  quote: readRoute('/instance/quote', instance.launchRequest, quote.quoteAnswer, {
    summary: 'Return the costs of a launch, and an ID that holds its price for five minutes; launches nothing',
    source: decision('instances'),
  }),
  listInstances: readRoute('/instance/list', labels.instanceListRequest, instance.instanceListAnswer, {
    compressed: true,
    errors: 'plain',
    summary: "List the caller's instances, newest first",
    source: 'docs/interface.md §4.2',
  }),
  listVolumes: readRoute('/storage/volume/list', labels.volumeListRequest, volume.volumeListAnswer, {
    compressed: true,
    errors: 'plain',
    summary: "List the caller's volumes, newest first",
    source: 'docs/interface.md §4.3',
  }),
  labelVolume: jsonRoute('/storage/volume/label', labels.volumeLabelRequest, labels.volumeLabelAnswer, {
    summary: 'Replace the labels of a volume',
  }),
  createVolume: operationRoute('/storage/volume/create', volume.volumeCreateRequest, volume.volumeCreateAnswer, {
    errors: 'plain',
    summary: 'Create a storage volume',
    source: 'docs/interface.md §4.4',
  }),
  deleteVolume: operationRoute('/storage/volume/delete', volume.volumeIdBody, volume.volumeIdAnswer, {
    summary: 'Delete a storage volume that no instance mounts',
    source: decision('volumes'),
  }),
  getVolume: readRoute('/storage/volume/get', volume.volumeIdBody, volume.volumeGetAnswer, {
    summary: 'Return a volume with its mounts, snapshots and last operation',
  }),
  expandVolume: operationRoute('/storage/volume/expand', volume.volumeExpandRequest, volume.volumeExpandAnswer, {
    summary: 'Grow a volume, even while instances mount it; a volume never shrinks',
    source: decision('volumes'),
  }),
  renameVolume: jsonRoute('/storage/volume/rename', volume.volumeRenameRequest, volume.volumeCreateAnswer, {
    idempotent: true,
    summary: 'Rename a volume; instances keep showing the name of their launch',
  }),
  copyVolume: operationRoute('/storage/volume/copy', volume.volumeCopyRequest, volume.volumeCreateAnswer, {
    summary: 'Create a volume with the files of another, which may be mounted',
  }),
  createSnapshot: operationRoute(
    '/storage/snapshot/create',
    volume.snapshotCreateRequest,
    volume.snapshotCreateAnswer,
    { summary: 'Take a snapshot of a volume, even while instances write to it' },
  ),
  listSnapshots: readRoute('/storage/snapshot/list', instance.pageRequest, volume.snapshotListAnswer, {
    compressed: true,
    summary: "List the caller's snapshots, newest first",
  }),
  deleteSnapshot: operationRoute('/storage/snapshot/delete', volume.volumeIdBody, volume.volumeIdAnswer, {
    summary: 'Delete a snapshot; volumes restored from it stay',
  }),
  restoreSnapshot: operationRoute('/storage/snapshot/restore', volume.volumeCopyRequest, volume.volumeCreateAnswer, {
    summary: 'Create a volume with the files of a snapshot',
  }),
  listFiles: readRoute('/storage/files/list', file.fileListRequest, file.fileListAnswer, {
    compressed: true,
    summary: 'List a folder of a volume by name, page by page',
  }),
  createFolder: jsonRoute('/storage/files/createFolder', file.folderBody, account.emptyAnswer, {
    fills: true,
    summary: 'Create a folder in a volume with its missing parents; an existing folder stays',
  }),
  stop: act('stop', 'Stop an instance; its disks stay'),
  terminate: act('terminate', 'Terminate an instance, in any state'),
  start: operationRoute('/instance/start', instance.startRequest, instance.instanceIdAnswer, {
    errors: 'plain',
    summary: 'Start a stopped instance, with its pending changes',
    source: `${decision('instances')}; withoutGpu is ours`,
    waits: true,
  }),
  restart: act('restart', 'Restart a running instance, with its pending changes'),
  updateInstance: jsonRoute('/instance/update', instance.updateRequest, instance.updateAnswer, {
    idempotent: true,
    summary: 'Rename and label an instance; change its type, volumes and node ports at its next start or restart',
  }),
  setBilling: jsonRoute('/instance/billing', instance.setBillingRequest, instance.setBillingAnswer, {
    idempotent: true,
    summary: 'Set what follows when paid time, an off-peak window or spot capacity ends',
  }),
  archive: operationRoute('/instance/archive', instance.instanceIdBody, instance.instanceIdAnswer, {
    summary: 'Archive an instance: store the root disk as an image and remove the container; start restores it',
    source: 'ours; docs/interface.md §3 has the status Archived',
  }),
  expandDisk: operationRoute('/instance/disk/expand', instance.expandDiskRequest, instance.instanceIdAnswer, {
    summary: 'Grow the data disk or the Docker disk of an instance, even while it runs',
    source: 'ours; docs/interface.md §2.1 and §4.1 have the sizes',
  }),
  getInstance: readRoute('/instance/get', instance.instanceIdBody, operation.instanceGetAnswer, {
    summary: 'Return an instance with the timeline of its last start',
  }),
  getOperation: readRoute('/operation/get', operation.operationIdBody, operation.operationAnswer, {
    summary: 'Return an operation: stages, progress and the cause of a failure',
  }),
  listOperations: readRoute('/operation/list', operation.operationListRequest, operation.operationListAnswer, {
    compressed: true,
    summary: 'List the operations of one instance, volume, snapshot or image, newest first',
  }),
  cancelOperation: operationRoute('/operation/cancel', operation.operationIdBody, operation.operationAnswer, {
    summary: 'Cancel a running operation, where possible; the cancellation is an operation itself',
  }),
  ends: jsonRoute('/instance/ends', stopPolicy.endsRequest, stopPolicy.endsAnswer, {
    summary:
      'Set and return the stop policy of an instance: a field left out stays, null removes it. A start removes a stopAtUnixMs in the past',
    source: 'ours; docs/interface.md §2.1 has scheduledStopTimestamp',
  }),
  activity: readRoute('/instance/activity', instance.instanceIdBody, stopPolicy.activityAnswer, {
    summary: 'Return whether an instance is in use, by which signal, and the time of its idle stop',
  }),
  metrics: readRoute('/instance/metrics', metrics.metricsRequest, metrics.metricsAnswer, {
    compressed: true,
    summary:
      'Return the resource usage of an instance over the last 24 hours: by 15 seconds for an hour, then by the minute',
  }),
  instanceFigures: readRoute('/instance/figures', figures.instanceFiguresRequest, figures.instanceFiguresAnswer, {
    compressed: true,
    summary: 'Return what up to 100 instances cost, and their load over the last 24 hours',
  }),
  logs: readRoute('/instance/logs', log.logsRequest, log.logsAnswer, {
    summary:
      'Read the console, init script log or events of an instance by page; GET the same path for a stream or download',
  }),
  exec: jsonRoute('/instance/exec', exec.execRequest, exec.execAnswer, {
    summary:
      'Run a command inside a running instance and return its output; it is killed at its timeout or when the client disconnects',
  }),
  listTerminals: readRoute('/instance/terminal/list', instance.instanceIdBody, exec.terminalListAnswer, {
    summary: 'List the open terminals of an instance',
  }),
  closeTerminal: jsonRoute('/instance/terminal/close', exec.terminalBody, account.emptyAnswer, {
    summary: 'Close a terminal: kill its processes and disconnect its viewers',
  }),
  keepAlive: jsonRoute('/instance/keepalive', stopPolicy.keepAliveRequest, stopPolicy.keepAliveAnswer, {
    summary: 'Prevent an idle stop for some minutes; programs inside the instance may call it with an API key',
  }),
  open: jsonRoute('/instance/open', instance.openRequest, instance.openAnswer, {
    summary: 'Create a link that opens the notebook or a port in a browser, valid once and for a minute',
    source: decision('instances'),
  }),
  setPortAccess: jsonRoute('/instance/port/access', port.portAccessRequest, port.portAccessAnswer, {
    lasting: { scope: 'instances' },
    summary: 'Set the access to a port through the gateway: owner, any account (signedIn), public or default',
    source: 'ours; nodePorts of docs/interface.md §4.1 are the default',
  }),
  listPorts: readRoute('/instance/port/list', instance.instanceIdBody, port.portListAnswer, {
    summary: 'List the ports in nodePorts and those with a setting or link, with access and URLs',
  }),
  sharePort: jsonRoute('/instance/port/share', port.shareRequest, port.shareAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Create a link that opens a port without login until it expires or is revoked',
  }),
  listShares: readRoute('/instance/port/shares', instance.instanceIdBody, port.shareListAnswer, {
    summary: 'List the links to ports of an instance, oldest first, without tokens',
  }),
  unsharePort: jsonRoute('/instance/port/unshare', port.unshareRequest, account.emptyAnswer, {
    idempotent: true,
    summary: 'Revoke a link to a port and disconnect its users',
  }),
  listInstanceEnvironment: readRoute(
    '/instance/environment/list',
    instance.instanceIdBody,
    environment.environmentListAnswer,
    { summary: 'List all environment variables of an instance, each with the layer it is from' },
  ),
  setInstanceEnvironment: jsonRoute(
    '/instance/environment/set',
    environment.instanceEnvironmentSetRequest,
    environment.environmentChangeAnswer,
    { idempotent: true, summary: 'Set environment variables of an instance; others stay' },
  ),
  deleteInstanceEnvironment: jsonRoute(
    '/instance/environment/delete',
    environment.instanceEnvironmentDeleteRequest,
    environment.environmentChangeAnswer,
    { idempotent: true, summary: 'Delete environment variables of an instance' },
  ),
  catalog: readRoute('/resource/user/instance/list', empty, catalog.catalogAnswer, {
    compressed: true,
    errors: 'plain',
    summary: 'List instance types, regions, prices and stock',
    source: decision('catalog'),
  }),
  listImages: readRoute('/image/list', instance.pageRequest, image.imageListAnswer, {
    compressed: true,
    summary: "List the images for launches: the operator's, then the caller's own",
    source: decision('catalog'),
  }),
  createImage: jsonRoute('/image/create', image.imageCreateRequest, image.imageIdAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Register an image of a registry for your account; the registry is asked for it',
  }),
  saveImage: operationRoute('/image/save', image.imageSaveRequest, image.imageIdAnswer, {
    summary: 'Save the root disk of a Running or Stopped instance as an image; a running instance is paused meanwhile',
  }),
  deleteImage: operationRoute('/image/delete', image.imageIdBody, image.imageIdAnswer, {
    summary: 'Delete an image of your own',
  }),
  createRegistry: jsonRoute('/registry/create', image.registryCreateRequest, image.registryCreateAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Store credentials for a registry of your images, one for each server',
  }),
  listRegistries: readRoute('/registry/list', empty, image.registryListAnswer, {
    summary: "List the caller's registry credentials, without their secrets",
  }),
  deleteRegistry: jsonRoute('/registry/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'Delete registry credentials',
  }),
  listRegions: readRoute('/region/list', empty, catalog.regionListAnswer, {
    compressed: true,
    summary: 'List regions and their capabilities',
    source: decision('catalog'),
  }),
  ...accountRoutes,
  ...templateRoutes,
  ...billingRoutes,
  ...webhookRoutes,
  ...adminRoutes,
  ...operatorRoutes,
  ...accountAdminRoutes,
  ...quotaRoutes,
  ...budgetRoutes,
  ...creditRoutes,
  ...priceRoutes,
  ...catalogAdminRoutes,
  ...streamRoutes,
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
