/**
 * The one table of routes. The server mounts it, the OpenAPI document and the typed client are made from it, and so is the table
 * of who may call. Paths stand under `/api`.
 */
import type { z } from 'zod';
import * as account from './account.ts';
import * as catalog from './catalog.ts';
import { empty } from './common.ts';
import * as instance from './instance.ts';
import * as volume from './volume.ts';

export const BASE_PATH = '/api';
export const ACCESS_COOKIE = 'AccessToken';

/** The role that `who: 'admin'` asks for; also a member of `group` in `userInfo`. */
export const ADMIN_ROLE = 'admin';

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
  /** `plain`: `{message}` as the interface fixes it. `problem`: RFC 9457 that also carries `message`. */
  errors: 'plain' | 'problem';
  summary: string;
  /** Where the rule comes from. */
  source: string;
}

type Described = Pick<Route, 'summary' | 'source'> & Partial<Pick<Route, 'method' | 'idempotent' | 'errors'>>;

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
    errors: 'plain',
    ...described,
  });

const route = routeFor('account');

const act = (name: string, summary: string, source: string) =>
  route(`/instance/${name}`, instance.instanceIdBody, instance.instanceIdAnswer, { idempotent: true, summary, source });

const notes = (row: string) => `interface-notes.md, ${row}`;

export const routes = {
  launch: route('/instance/create', instance.launchRequest, instance.instanceIdAnswer, {
    idempotent: true,
    summary: 'Launch an instance',
    source: 'interface.md §4.1',
  }),
  listInstances: route('/instance/list', instance.pageRequest, instance.instanceListAnswer, {
    summary: "List the caller's instances, newest first",
    source: 'interface.md §4.2',
  }),
  listVolumes: route('/storage/volume/list', instance.pageRequest, volume.volumeListAnswer, {
    summary: "List the caller's volumes, newest first",
    source: 'interface.md §4.3',
  }),
  createVolume: route('/storage/volume/create', volume.volumeCreateRequest, volume.volumeCreateAnswer, {
    idempotent: true,
    summary: 'Create a storage volume',
    source: 'interface.md §4.4',
  }),
  deleteVolume: route('/storage/volume/delete', volume.volumeIdBody, volume.volumeIdAnswer, {
    idempotent: true,
    errors: 'problem',
    summary: 'Delete a storage volume that no instance mounts',
    source: notes('Volumes: delete'),
  }),
  stop: act('stop', 'Stop an instance; its disks stay', notes('Instances: stop, terminate')),
  terminate: act('terminate', 'Terminate an instance, in whatever state it is', notes('Instances: stop, terminate')),
  start: act('start', 'Start a stopped instance', notes('Instances: start, restart')),
  restart: act('restart', 'Restart a running instance', notes('Instances: start, restart')),
  archive: route('/instance/archive', instance.instanceIdBody, instance.instanceIdAnswer, {
    idempotent: true,
    errors: 'problem',
    summary: 'Keep the root disk as an image and let the container go; start brings it back',
    source: 'ours; the status Archived is of interface.md §3',
  }),
  open: route('/instance/open', instance.openRequest, instance.openAnswer, {
    errors: 'problem',
    summary: 'A link that opens the notebook (or a port) in a browser: good once, and for a minute',
    source: notes('Instances: gateway for programs'),
  }),
  catalog: route('/resource/user/instance/list', empty, catalog.catalogAnswer, {
    summary: 'Instance types, regions, prices and stock',
    source: notes('Instances: catalog'),
  }),
  listImages: route('/image/list', instance.pageRequest, catalog.imageListAnswer, {
    errors: 'problem',
    summary: 'Images that can be launched',
    source: notes('Instances: other lists'),
  }),
  listRegions: route('/region/list', empty, catalog.regionListAnswer, {
    errors: 'problem',
    summary: 'Regions, and what each can do',
    source: notes('Instances: other lists'),
  }),
  login: routeFor('anyone')('/user/login', account.loginRequest, account.loginAnswer, {
    summary: 'Log in; also sets the AccessToken cookie',
    source: notes('Authentication: login'),
  }),
  logout: route('/user/logout', empty, account.emptyAnswer, {
    errors: 'problem',
    summary: 'End this login; its token is refused from now on',
    source: notes('Authentication: JWT'),
  }),
  changePassword: route('/user/password', account.passwordRequest, account.emptyAnswer, {
    errors: 'problem',
    summary: 'Change the password; ends every login of the account',
    source: notes('Authentication: JWT'),
  }),
  userInfo: route('/user/info', empty, account.userInfoAnswer, {
    summary: 'Who the caller is',
    source: notes('Instances: account'),
  }),
  createUser: routeFor('admin')('/user/create', account.userCreateRequest, account.userInfoAnswer, {
    errors: 'problem',
    idempotent: true,
    summary: 'Create an account (administrators)',
    source: 'ours',
  }),
  createApiKey: route('/user/key/create', account.nameBody, account.keyCreateAnswer, {
    idempotent: true,
    summary: 'Mint an API key; the full key is shown this once',
    source: notes('Instances: account'),
  }),
  listApiKeys: route('/user/key/list', empty, account.keyListAnswer, {
    summary: "List the caller's API keys",
    source: notes('Instances: account'),
  }),
  deleteApiKey: route('/user/key/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'Delete an API key; it is refused from now on',
    source: notes('Instances: account'),
  }),
  createSshKey: route('/user/sshkey/create', account.sshKeyCreateRequest, account.sshKeyCreateAnswer, {
    idempotent: true,
    summary: "Register an ssh public key; it opens the caller's instances within seconds",
    source: notes('Instances: account'),
  }),
  listSshKeys: route('/user/sshkey/list', empty, account.sshKeyListAnswer, {
    summary: "List the caller's ssh keys",
    source: notes('Instances: account'),
  }),
  deleteSshKey: route('/user/sshkey/delete', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'Delete an ssh key',
    source: notes('Instances: account'),
  }),
  balance: route('/balance', empty, account.balanceAnswer, {
    method: 'GET',
    summary: 'Money the caller has, in dollars',
    source: notes('Instances: balance'),
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
