/**
 * The one table of routes. The server mounts it, the OpenAPI document and the typed client are made from it, and so is the table
 * of who may call. Paths stand under `/api`.
 */
import type { z } from 'zod';
import * as account from './account.ts';
import * as catalog from './catalog.ts';
import { empty } from './common.ts';
import * as file from './file.ts';
import * as image from './image.ts';
import * as ends from './stop-policy.ts';
import * as exec from './exec.ts';
import * as instance from './instance.ts';
import * as log from './log.ts';
import * as metrics from './metrics.ts';
import * as operation from './operation.ts';
import * as port from './port.ts';
import * as orphan from './orphan.ts';
import * as registry from './registry.ts';
import * as snapshot from './snapshot.ts';
import * as volume from './volume.ts';

export const BASE_PATH = '/api';
export const ACCESS_COOKIE = 'AccessToken';

export type Who = 'anyone' | 'account' | 'admin';

export interface Route<
  Body extends z.ZodType = z.ZodType,
  Answer extends z.ZodType = z.ZodType,
  Caller extends Who = Who,
> {
  method: 'GET' | 'POST';
  path: string;
  who: Caller;
  body: Body;
  answer: Answer;
  /** Takes an `Idempotency-Key`: the same key and body answer the first result, another body is refused. */
  idempotent: boolean;
  /** Its answer names in a header the operation that it began. All other routes are done when they answer. */
  operation: boolean;
  /** Takes the header `X-Berth-Wait-For-Capacity`: where there is no room it is accepted and waits in line, instead of refused. */
  waits: boolean;
  /** It takes room in a volume, which may have none left. */
  fills: boolean;
  /** `plain`: `{message}` as the interface fixes it. `problem`: RFC 9457 that also carries `message`. */
  errors: 'plain' | 'problem';
  summary: string;
  /** Where the rule comes from. */
  source: string;
}

type Described = Pick<Route, 'summary' | 'source'> &
  Partial<Pick<Route, 'method' | 'idempotent' | 'operation' | 'waits' | 'fills' | 'errors'>>;

const routeFor =
  <Caller extends Who>(who: Caller) =>
  <Body extends z.ZodType, Answer extends z.ZodType>(
    path: string,
    body: Body,
    answer: Answer,
    described: Described,
  ): Route<Body, Answer, Caller> => ({
    method: 'POST',
    path,
    who,
    body,
    answer,
    idempotent: false,
    operation: false,
    waits: false,
    fills: false,
    errors: 'plain',
    ...described,
  });

const route = routeFor('account');

const act = (name: string, summary: string, source: string, more: Partial<Described> = {}) =>
  route(`/instance/${name}`, instance.instanceIdBody, instance.instanceIdAnswer, {
    idempotent: true,
    operation: true,
    summary,
    source,
    ...more,
  });

const notes = (row: string) => `docs/interface.md §10, ${row}`;

export const routes = {
  launch: route('/instance/create', instance.launchRequest, instance.instanceIdAnswer, {
    idempotent: true,
    operation: true,
    waits: true,
    summary: 'Launch an instance',
    source: 'docs/interface.md §4.1',
  }),
  listInstances: route('/instance/list', instance.pageRequest, instance.instanceListAnswer, {
    summary: "List the caller's instances, newest first",
    source: 'docs/interface.md §4.2',
  }),
  listVolumes: route('/storage/volume/list', instance.pageRequest, volume.volumeListAnswer, {
    summary: "List the caller's volumes, newest first",
    source: 'docs/interface.md §4.3',
  }),
  createVolume: route('/storage/volume/create', volume.volumeCreateRequest, volume.volumeCreateAnswer, {
    idempotent: true,
    operation: true,
    summary: 'Create a storage volume',
    source: 'docs/interface.md §4.4',
  }),
  deleteVolume: route('/storage/volume/delete', volume.volumeIdBody, volume.volumeIdAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary: 'Delete a storage volume that no instance mounts',
    source: notes('volumes'),
  }),
  getVolume: route('/storage/volume/get', volume.volumeIdBody, volume.volumeGetAnswer, {
    errors: 'problem',
    summary: 'One volume, with who mounts it, its snapshots, and how its last wish fares',
    source: 'ours',
  }),
  expandVolume: route('/storage/volume/expand', volume.volumeExpandRequest, volume.volumeExpandAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary:
      'Make a volume larger, also while instances mount it; the size that it has is answered as it is, and none is made smaller',
    source: notes('volumes'),
  }),
  renameVolume: route('/storage/volume/rename', volume.volumeRenameRequest, volume.volumeCreateAnswer, {
    idempotent: true,
    errors: 'problem',
    summary: 'Rename a volume; instances go on showing the name that it had when they were launched',
    source: 'ours',
  }),
  copyVolume: route('/storage/volume/copy', volume.volumeCopyRequest, volume.volumeCreateAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary: 'Create a volume with all files of another, which may be mounted meanwhile',
    source: 'ours',
  }),
  createSnapshot: route('/storage/snapshot/create', snapshot.snapshotCreateRequest, snapshot.snapshotCreateAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary:
      'Keep what a volume holds now, also while instances write to it; `consistency` says whether it is of one moment',
    source: 'ours',
  }),
  listSnapshots: route('/storage/snapshot/list', instance.pageRequest, snapshot.snapshotListAnswer, {
    errors: 'problem',
    summary: "List the caller's snapshots, newest first",
    source: 'ours',
  }),
  deleteSnapshot: route('/storage/snapshot/delete', volume.volumeIdBody, volume.volumeIdAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary: 'Delete a snapshot; volumes that were restored from it stay',
    source: 'ours',
  }),
  restoreSnapshot: route('/storage/snapshot/restore', volume.volumeCopyRequest, volume.volumeCreateAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary: 'Create a volume with all that a snapshot holds',
    source: 'ours',
  }),
  listFiles: route('/storage/files/list', file.fileListRequest, file.fileListAnswer, {
    errors: 'problem',
    summary:
      'What is in a folder of a volume, by name, a page at a time; the path in the URL of a file downloads (GET), uploads (PUT) or deletes it',
    source: 'ours',
  }),
  createFolder: route('/storage/files/createFolder', file.folderBody, account.emptyAnswer, {
    fills: true,
    errors: 'problem',
    summary: 'Make a folder in a volume, and those above it that are missing; one that is there stays',
    source: 'ours',
  }),
  stop: act('stop', 'Stop an instance; its disks stay', notes('instances')),
  terminate: act('terminate', 'Terminate an instance, in whatever state it is', notes('instances')),
  start: act('start', 'Start a stopped instance', notes('instances'), { waits: true }),
  restart: act('restart', 'Restart a running instance', notes('instances')),
  archive: route('/instance/archive', instance.instanceIdBody, instance.instanceIdAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary: 'Keep the root disk as an image and let the container go; start brings it back',
    source: 'ours; docs/interface.md §3 has the status Archived',
  }),
  expandDisk: route('/instance/disk/expand', instance.expandDiskRequest, instance.instanceIdAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary: "Make an instance's data disk larger, or its Docker's; also while it runs",
    source: 'ours; docs/interface.md §2.1 and §4.1 have the sizes',
  }),
  getInstance: route('/instance/get', instance.instanceIdBody, operation.instanceGetAnswer, {
    errors: 'problem',
    summary: 'One instance, with the timeline of how it was brought up',
    source: 'ours',
  }),
  getOperation: route('/operation/get', operation.operationIdBody, operation.operationAnswer, {
    errors: 'problem',
    summary: 'How an operation fares: its stages, how far it is, and why it failed',
    source: 'ours',
  }),
  listOperations: route('/operation/list', operation.operationListRequest, operation.operationListAnswer, {
    errors: 'problem',
    summary: 'The operations of one instance, volume, snapshot or image, newest first',
    source: 'ours',
  }),
  cancelOperation: route('/operation/cancel', operation.operationIdBody, operation.operationAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary: 'Take an operation back that is under way, by a wish of its own; where that can be',
    source: 'ours',
  }),
  ends: route('/instance/ends', ends.endsRequest, ends.endsAnswer, {
    errors: 'problem',
    summary:
      'What ends the instance by itself: sets what is given, leaves what is not, null takes off; answers all that now holds. A start takes off a stopAtUnixMs that has passed',
    source: 'ours; docs/interface.md §2.1 has scheduledStopTimestamp',
  }),
  activity: route('/instance/activity', instance.instanceIdBody, ends.activityAnswer, {
    errors: 'problem',
    summary: 'Whether the instance is used, by which signal, and when idleness will stop it',
    source: 'ours',
  }),
  metrics: route('/instance/metrics', metrics.metricsRequest, metrics.metricsAnswer, {
    errors: 'problem',
    summary:
      'What an instance uses, now and over the last 24 hours: processor, memory, network, disk, processes, GPUs; every 15 seconds of the last hour, by the minute before that',
    source: 'ours',
  }),
  logs: route(log.LOGS_PATH, log.logsRequest, log.logsAnswer, {
    errors: 'problem',
    summary:
      'What an instance wrote on its console, what its init script did, or what happened to it (events): by range, by the page. The same path answers GET with a stream that follows it, or a download',
    source: 'ours',
  }),
  exec: route(exec.EXEC_PATH, exec.execRequest, exec.execAnswer, {
    errors: 'problem',
    summary:
      'Run a command inside a running instance to its end: exit code, stdout and stderr; it is killed at its time limit, and when the caller leaves. GET the same path with a WebSocket for its streams',
    source: 'ours',
  }),
  listTerminals: route(`${exec.TERMINAL_PATH}/list`, instance.instanceIdBody, exec.terminalListAnswer, {
    errors: 'problem',
    summary:
      'The terminals of an instance that are open, attached or left; GET /instance/terminal attaches to one, by WebSocket',
    source: 'ours',
  }),
  closeTerminal: route(`${exec.TERMINAL_PATH}/close`, exec.terminalBody, account.emptyAnswer, {
    errors: 'problem',
    summary: 'Close a terminal: its shell is killed with all that it began, and whoever is attached is sent away',
    source: 'ours',
  }),
  keepAlive: route('/instance/keepalive', ends.keepAliveRequest, ends.keepAliveAnswer, {
    errors: 'problem',
    summary: 'Keep the instance from an idle stop for some minutes; also for programs inside it, with an API key',
    source: 'ours',
  }),
  open: route('/instance/open', instance.openRequest, instance.openAnswer, {
    errors: 'problem',
    summary:
      'A link that opens the notebook (or a port) in a browser: good once, and for a minute. Of an instance of another account only a port that is set so',
    source: notes('instances'),
  }),
  setPortAccess: route('/instance/port/access', port.portAccessRequest, port.portAccessAnswer, {
    errors: 'problem',
    summary:
      'Who may come to a port through the gateway: its owner, any account (signedIn), everybody (public), or as without a setting (default)',
    source: 'ours; nodePorts of docs/interface.md §4.1 are the default',
  }),
  listPorts: route('/instance/port/list', instance.instanceIdBody, port.portListAnswer, {
    errors: 'problem',
    summary: 'Ports that are in nodePorts, set or shared: who may come to each, and where it is',
    source: 'ours',
  }),
  sharePort: route('/instance/port/share', port.shareRequest, port.shareAnswer, {
    idempotent: true,
    errors: 'problem',
    summary:
      'A link that opens one port to whoever has it, until it expires or is revoked; its token is shown this once, and programs may send it as X-Berth-Share',
    source: 'ours',
  }),
  listShares: route('/instance/port/shares', instance.instanceIdBody, port.shareListAnswer, {
    errors: 'problem',
    summary: 'Links to the ports of an instance that have not expired, oldest first, without their tokens',
    source: 'ours',
  }),
  unsharePort: route('/instance/port/unshare', port.unshareRequest, account.emptyAnswer, {
    idempotent: true,
    errors: 'problem',
    summary: 'Revoke a link to a port; whoever came in by it is sent away',
    source: 'ours',
  }),
  catalog: route('/resource/user/instance/list', empty, catalog.catalogAnswer, {
    summary: 'Instance types, regions, prices and stock',
    source: notes('catalog'),
  }),
  listImages: route('/image/list', instance.pageRequest, image.imageListAnswer, {
    errors: 'problem',
    summary: "Images that can be launched: those on offer, then the caller's own",
    source: notes('catalog'),
  }),
  createImage: route('/image/create', image.imageCreateRequest, image.imageIdAnswer, {
    idempotent: true,
    errors: 'problem',
    summary: 'An image of your own, by the name that its registry has it by; only you see it and can launch it',
    source: 'ours',
  }),
  saveImage: route('/image/save', image.imageSaveRequest, image.imageIdAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary:
      'Save the root disk of a Running or Stopped instance as an image of your own; a running one stands still meanwhile',
    source: 'ours',
  }),
  deleteImage: route('/image/delete', image.imageIdBody, image.imageIdAnswer, {
    idempotent: true,
    operation: true,
    errors: 'problem',
    summary: 'Delete an image of your own',
    source: 'ours',
  }),
  createRegistry: route('/registry/create', registry.registryCreateRequest, registry.registryCreateAnswer, {
    idempotent: true,
    errors: 'problem',
    summary: 'Register credentials for a registry that your own images are had from; one for each server',
    source: 'ours',
  }),
  listRegistries: route('/registry/list', empty, registry.registryListAnswer, {
    errors: 'problem',
    summary: "List the caller's registry credentials, without their secrets",
    source: 'ours',
  }),
  deleteRegistry: route('/registry/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    errors: 'problem',
    summary: 'Delete registry credentials',
    source: 'ours',
  }),
  listRegions: route('/region/list', empty, catalog.regionListAnswer, {
    errors: 'problem',
    summary: 'Regions, and what each can do',
    source: notes('catalog'),
  }),
  login: routeFor('anyone')('/user/login', account.loginRequest, account.loginAnswer, {
    summary: 'Log in; also sets the AccessToken cookie',
    source: notes('authentication'),
  }),
  logout: route('/user/logout', empty, account.emptyAnswer, {
    errors: 'problem',
    summary: 'End this login; its token is refused from now on',
    source: notes('authentication'),
  }),
  changePassword: route('/user/password', account.passwordRequest, account.emptyAnswer, {
    errors: 'problem',
    summary: 'Change the password; ends every login of the account',
    source: notes('authentication'),
  }),
  userInfo: route('/user/info', empty, account.userInfoAnswer, {
    summary: 'Who the caller is',
    source: notes('account'),
  }),
  createUser: routeFor('admin')('/user/create', account.userCreateRequest, account.userInfoAnswer, {
    errors: 'problem',
    idempotent: true,
    summary: 'Create an account (administrators)',
    source: 'ours',
  }),
  listStrays: routeFor('admin')('/admin/stray/list', empty, orphan.orphanListAnswer, {
    errors: 'problem',
    summary: 'What the engines hold of this installation and nobody wished (administrators)',
    source: 'ours',
  }),
  handleStray: routeFor('admin')('/admin/stray/handle', orphan.orphanHandleRequest, orphan.orphanHandleAnswer, {
    errors: 'problem',
    summary:
      'Adopt, stop or delete one of these; what is adopted keeps its mounts as long as its container lives (administrators)',
    source: 'ours',
  }),
  createApiKey: route('/user/key/create', account.nameBody, account.keyCreateAnswer, {
    idempotent: true,
    summary: 'Mint an API key; the full key is shown this once',
    source: notes('account'),
  }),
  listApiKeys: route('/user/key/list', empty, account.keyListAnswer, {
    summary: "List the caller's API keys",
    source: notes('account'),
  }),
  deleteApiKey: route('/user/key/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'Delete an API key; it is refused from now on',
    source: notes('account'),
  }),
  createSshKey: route('/user/sshkey/create', account.sshKeyCreateRequest, account.sshKeyCreateAnswer, {
    idempotent: true,
    summary: "Register an ssh public key; it opens the caller's instances within seconds",
    source: notes('account'),
  }),
  listSshKeys: route('/user/sshkey/list', empty, account.sshKeyListAnswer, {
    summary: "List the caller's ssh keys",
    source: notes('account'),
  }),
  deleteSshKey: route('/user/sshkey/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'Delete an ssh key',
    source: notes('account'),
  }),
  listSessions: route('/user/session/list', empty, account.sessionListAnswer, {
    errors: 'problem',
    summary: "List the sessions that browsers have at the gateway as the caller's account, the last used first",
    source: 'ours',
  }),
  revokeSession: route('/user/session/revoke', account.idBody, account.emptyAnswer, {
    idempotent: true,
    errors: 'problem',
    summary: 'End a session at the gateway; what is open in it is cut',
    source: 'ours',
  }),
  balance: route('/balance', empty, account.balanceAnswer, {
    method: 'GET',
    summary: 'Money the caller has, in dollars',
    source: notes('account'),
  }),
} as const;

export type RouteName = keyof typeof routes;
export type BodyOf<Name extends RouteName> = z.output<(typeof routes)[Name]['body']>;
export type InputOf<Name extends RouteName> = z.input<(typeof routes)[Name]['body']>;
export type AnswerOf<Name extends RouteName> = z.output<(typeof routes)[Name]['answer']>;

const table: {
  [Name in RouteName]: Route<z.ZodType<BodyOf<Name>>, z.ZodType<AnswerOf<Name>>>;
} = routes;

/** A row of the table, for code that is generic in the name of the route. */
export const routeOf = <Name extends RouteName>(name: Name) => table[name];

/** The table's names in its order, typed. */
export const routeNames = Object.keys(routes).filter((name): name is RouteName => name in routes);
