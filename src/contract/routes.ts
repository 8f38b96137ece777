/**
 * The route table: everything that crosses the wire below `/api`. Server, access checks, OpenAPI
 * document and typed client derive from it.
 */
import type { z } from 'zod';
import * as account from './account.ts';
import * as catalog from './catalog.ts';
import { empty } from './common.ts';
import * as environment from './environment.ts';
import * as exec from './exec.ts';
import * as file from './file.ts';
import * as image from './image.ts';
import * as instance from './instance.ts';
import * as labels from './list-filters.ts';
import * as log from './log.ts';
import * as metrics from './metrics.ts';
import * as operation from './operation.ts';
import * as admin from './admin.ts';
import * as port from './port.ts';
import { adminRoute, jsonRoute, openRoute, operationRoute } from './route.ts';
import type { JsonRoute, Route } from './route.ts';
import * as stopPolicy from './stop-policy.ts';
import { streamRoutes } from './stream-routes.ts';
import * as volume from './volume.ts';

export const BASE_PATH = '/api';
export const ACCESS_COOKIE = 'AccessToken';

const decision = (subject: string) => `docs/interface.md §10, ${subject}`;

const act = (name: string, summary: string) =>
  operationRoute(`/instance/${name}`, instance.instanceIdBody, instance.instanceIdAnswer, {
    errors: 'plain',
    summary,
    source: decision('instances'),
  });

export const routes = {
  launch: operationRoute('/instance/create', instance.launchRequest, instance.instanceIdAnswer, {
    waits: true,
    errors: 'plain',
    summary: 'Launch an instance',
    source: 'docs/interface.md §4.1',
  }),
  listInstances: jsonRoute('/instance/list', labels.instanceListRequest, instance.instanceListAnswer, {
    compressed: true,
    errors: 'plain',
    summary: "List the caller's instances, newest first",
    source: 'docs/interface.md §4.2',
  }),
  listVolumes: jsonRoute('/storage/volume/list', labels.volumeListRequest, volume.volumeListAnswer, {
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
  getVolume: jsonRoute('/storage/volume/get', volume.volumeIdBody, volume.volumeGetAnswer, {
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
  listSnapshots: jsonRoute('/storage/snapshot/list', instance.pageRequest, volume.snapshotListAnswer, {
    compressed: true,
    summary: "List the caller's snapshots, newest first",
  }),
  deleteSnapshot: operationRoute('/storage/snapshot/delete', volume.volumeIdBody, volume.volumeIdAnswer, {
    summary: 'Delete a snapshot; volumes restored from it stay',
  }),
  restoreSnapshot: operationRoute('/storage/snapshot/restore', volume.volumeCopyRequest, volume.volumeCreateAnswer, {
    summary: 'Create a volume with the files of a snapshot',
  }),
  listFiles: jsonRoute('/storage/files/list', file.fileListRequest, file.fileListAnswer, {
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
  archive: operationRoute('/instance/archive', instance.instanceIdBody, instance.instanceIdAnswer, {
    summary: 'Archive an instance: store the root disk as an image and remove the container; start restores it',
    source: 'ours; docs/interface.md §3 has the status Archived',
  }),
  expandDisk: operationRoute('/instance/disk/expand', instance.expandDiskRequest, instance.instanceIdAnswer, {
    summary: 'Grow the data disk or the Docker disk of an instance, even while it runs',
    source: 'ours; docs/interface.md §2.1 and §4.1 have the sizes',
  }),
  getInstance: jsonRoute('/instance/get', instance.instanceIdBody, operation.instanceGetAnswer, {
    summary: 'Return an instance with the timeline of its last start',
  }),
  getOperation: jsonRoute('/operation/get', operation.operationIdBody, operation.operationAnswer, {
    summary: 'Return an operation: stages, progress and the cause of a failure',
  }),
  listOperations: jsonRoute('/operation/list', operation.operationListRequest, operation.operationListAnswer, {
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
  activity: jsonRoute('/instance/activity', instance.instanceIdBody, stopPolicy.activityAnswer, {
    summary: 'Return whether an instance is in use, by which signal, and the time of its idle stop',
  }),
  metrics: jsonRoute('/instance/metrics', metrics.metricsRequest, metrics.metricsAnswer, {
    compressed: true,
    summary:
      'Return the resource usage of an instance over the last 24 hours: by 15 seconds for an hour, then by the minute',
  }),
  logs: jsonRoute('/instance/logs', log.logsRequest, log.logsAnswer, {
    summary:
      'Read the console, init script log or events of an instance by page; GET the same path for a stream or download',
  }),
  exec: jsonRoute('/instance/exec', exec.execRequest, exec.execAnswer, {
    summary:
      'Run a command inside a running instance and return its output; it is killed at its timeout or when the client disconnects',
  }),
  listTerminals: jsonRoute('/instance/terminal/list', instance.instanceIdBody, exec.terminalListAnswer, {
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
    summary: 'Set the access to a port through the gateway: owner, any account (signedIn), public or default',
    source: 'ours; nodePorts of docs/interface.md §4.1 are the default',
  }),
  listPorts: jsonRoute('/instance/port/list', instance.instanceIdBody, port.portListAnswer, {
    summary: 'List the ports in nodePorts and those with a setting or link, with access and URLs',
  }),
  sharePort: jsonRoute('/instance/port/share', port.shareRequest, port.shareAnswer, {
    idempotent: true,
    summary: 'Create a link that opens a port without login until it expires or is revoked',
  }),
  listShares: jsonRoute('/instance/port/shares', instance.instanceIdBody, port.shareListAnswer, {
    summary: 'List the links to ports of an instance, oldest first, without tokens',
  }),
  unsharePort: jsonRoute('/instance/port/unshare', port.unshareRequest, account.emptyAnswer, {
    idempotent: true,
    summary: 'Revoke a link to a port and disconnect its users',
  }),
  listInstanceEnvironment: jsonRoute(
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
  catalog: jsonRoute('/resource/user/instance/list', empty, catalog.catalogAnswer, {
    compressed: true,
    errors: 'plain',
    summary: 'List instance types, regions, prices and stock',
    source: decision('catalog'),
  }),
  listImages: jsonRoute('/image/list', instance.pageRequest, image.imageListAnswer, {
    compressed: true,
    summary: "List the images for launches: the operator's, then the caller's own",
    source: decision('catalog'),
  }),
  createImage: jsonRoute('/image/create', image.imageCreateRequest, image.imageIdAnswer, {
    idempotent: true,
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
    summary: 'Store credentials for a registry of your images, one for each server',
  }),
  listRegistries: jsonRoute('/registry/list', empty, image.registryListAnswer, {
    summary: "List the caller's registry credentials, without their secrets",
  }),
  deleteRegistry: jsonRoute('/registry/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'Delete registry credentials',
  }),
  listRegions: jsonRoute('/region/list', empty, catalog.regionListAnswer, {
    compressed: true,
    summary: 'List regions and their capabilities',
    source: decision('catalog'),
  }),
  login: openRoute('/user/login', account.loginRequest, account.loginAnswer, {
    setsCookie: true,
    errors: 'plain',
    summary: 'Log in; also sets the AccessToken cookie',
    source: decision('authentication'),
  }),
  logout: jsonRoute('/user/logout', empty, account.emptyAnswer, {
    setsCookie: true,
    summary: 'Log out: revoke the token',
    source: decision('authentication'),
  }),
  changePassword: jsonRoute('/user/password', account.passwordRequest, account.emptyAnswer, {
    setsCookie: true,
    summary: 'Change the password and end every login of the account',
    source: decision('authentication'),
  }),
  userInfo: jsonRoute('/user/info', empty, account.userInfoAnswer, {
    errors: 'plain',
    summary: 'Return the account of the caller',
    source: decision('account'),
  }),
  createUser: adminRoute('/user/create', account.userCreateRequest, account.userInfoAnswer, {
    idempotent: true,
    summary: 'Create an account (administrators)',
  }),
  listStrays: adminRoute('/admin/stray/list', empty, admin.orphanListAnswer, {
    summary: 'List orphans: resources of this installation without a record (administrators)',
  }),
  handleStray: adminRoute('/admin/stray/handle', admin.orphanHandleRequest, admin.orphanHandleAnswer, {
    summary:
      'Adopt, stop or delete an orphan; an adopted instance keeps its mounts while its container lives (administrators)',
  }),
  listHeldDisks: adminRoute('/admin/disk/held', empty, admin.heldDiskListAnswer, {
    summary: 'List disks that processes of the host keep from being removed (administrators)',
  }),
  listTasks: adminRoute('/admin/task/list', empty, admin.taskListAnswer, {
    summary: 'List background tasks of the server and how their last run went (administrators)',
  }),
  listInstallationEnvironment: adminRoute('/admin/environment/list', empty, environment.environmentListAnswer, {
    summary: "List the installation's environment variables (administrators)",
  }),
  setInstallationEnvironment: adminRoute(
    '/admin/environment/set',
    environment.environmentSetRequest,
    environment.environmentChangeAnswer,
    { idempotent: true, summary: 'Set environment variables for all instances; others stay (administrators)' },
  ),
  deleteInstallationEnvironment: adminRoute(
    '/admin/environment/delete',
    environment.environmentDeleteRequest,
    environment.environmentChangeAnswer,
    { idempotent: true, summary: "Delete the installation's environment variables (administrators)" },
  ),
  listEnvironment: jsonRoute('/user/environment/list', empty, environment.environmentListAnswer, {
    summary: "List the account's environment variables",
  }),
  setEnvironment: jsonRoute(
    '/user/environment/set',
    environment.environmentSetRequest,
    environment.environmentChangeAnswer,
    { idempotent: true, summary: 'Set environment variables for all instances of the account; others stay' },
  ),
  deleteEnvironment: jsonRoute(
    '/user/environment/delete',
    environment.environmentDeleteRequest,
    environment.environmentChangeAnswer,
    { idempotent: true, summary: "Delete the account's environment variables" },
  ),
  createApiKey: jsonRoute('/user/key/create', account.nameBody, account.keyCreateAnswer, {
    idempotent: true,
    errors: 'plain',
    summary: 'Create an API key; only this answer has the full key',
    source: decision('account'),
  }),
  listApiKeys: jsonRoute('/user/key/list', empty, account.keyListAnswer, {
    errors: 'plain',
    summary: "List the caller's API keys",
    source: decision('account'),
  }),
  deleteApiKey: jsonRoute('/user/key/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    errors: 'plain',
    summary: 'Delete an API key and revoke it',
    source: decision('account'),
  }),
  createSshKey: jsonRoute('/user/sshkey/create', account.sshKeyCreateRequest, account.sshKeyCreateAnswer, {
    idempotent: true,
    errors: 'plain',
    summary: "Register an ssh public key; it opens the caller's instances within seconds",
    source: decision('account'),
  }),
  listSshKeys: jsonRoute('/user/sshkey/list', empty, account.sshKeyListAnswer, {
    errors: 'plain',
    summary: "List the caller's ssh keys",
    source: decision('account'),
  }),
  deleteSshKey: jsonRoute('/user/sshkey/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    errors: 'plain',
    summary: 'Delete an ssh key',
    source: decision('account'),
  }),
  listSessions: jsonRoute('/user/session/list', empty, account.sessionListAnswer, {
    summary: "List the caller's browser sessions at the gateway, the last used first",
  }),
  revokeSession: jsonRoute('/user/session/revoke', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'End a session at the gateway and close its connections',
  }),
  balance: jsonRoute('/balance', empty, account.balanceAnswer, {
    method: 'GET',
    errors: 'plain',
    summary: 'Return the balance of the caller in dollars',
    source: decision('account'),
  }),
  ...streamRoutes,
} as const;

export type RouteName = keyof typeof routes;
type NamesOf<Kind> = { [Name in RouteName]: (typeof routes)[Name]['kind'] extends Kind ? Name : never }[RouteName];
export type JsonRouteName = NamesOf<'json'>;
export type StreamRouteName = Exclude<RouteName, JsonRouteName>;
/** Routes that need no login. */
export type OpenRouteName = {
  [Name in JsonRouteName]: (typeof routes)[Name]['who'] extends 'anyone' ? Name : never;
}[JsonRouteName];
/** Routes that start an operation. */
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
