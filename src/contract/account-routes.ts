/** Rows of logins, keys and settings of the caller's own account. */
import * as account from './account.ts';
import { empty } from './common.ts';
import * as environment from './environment.ts';
import { decision, jsonRoute, openRoute, readRoute } from './route.ts';

export const accountRoutes = {
  login: openRoute('/user/login', account.loginRequest, account.loginAnswer, {
    setsCookie: true,
    errors: 'plain',
    summary: 'Log in; also sets the AccessToken cookie',
    source: decision('authentication'),
  }),
  logout: jsonRoute('/user/logout', empty, account.emptyAnswer, {
    setsCookie: true,
    summary: 'Log out: revoke the token',
    source: 'ours; docs/interface.md §10 has the revocation',
  }),
  listLogins: readRoute('/user/login/list', empty, account.loginListAnswer, {
    summary: "List the caller's logins, the last used first",
  }),
  revokeLogin: jsonRoute('/user/login/revoke', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'End a login, its sessions at the gateway and their connections',
  }),
  register: openRoute('/user/register', account.registerRequest, account.userInfoAnswer, {
    summary: 'Create an account for oneself, where the operator allows it',
  }),
  changePassword: jsonRoute('/user/password', account.passwordRequest, account.emptyAnswer, {
    setsCookie: true,
    summary: 'Change the password and end every login of the account',
    source: 'ours; docs/interface.md §10 has the revocation',
  }),
  userInfo: readRoute('/user/info', empty, account.userInfoAnswer, {
    errors: 'plain',
    summary: 'Return the account of the caller',
    source: decision('account'),
  }),
  listEnvironment: readRoute('/user/environment/list', empty, environment.environmentListAnswer, {
    summary: "List the account's environment variables",
  }),
  setEnvironment: jsonRoute(
    '/user/environment/set',
    environment.environmentSetRequest,
    environment.environmentChangeAnswer,
    {
      idempotent: true,
      lasting: { scope: 'instances' },
      summary: 'Set environment variables for all instances of the account; others stay',
    },
  ),
  deleteEnvironment: jsonRoute(
    '/user/environment/delete',
    environment.environmentDeleteRequest,
    environment.environmentChangeAnswer,
    { idempotent: true, lasting: { scope: 'instances' }, summary: "Delete the account's environment variables" },
  ),
  createApiKey: jsonRoute('/user/key/create', account.keyCreateRequest, account.keyCreateAnswer, {
    idempotent: true,
    errors: 'plain',
    limiting: ['scopes', 'expiresAtUnixMs', 'addresses'],
    summary: 'Create an API key; only this answer has the full key',
    details: 'A misspelled `scopes`, `expiresAtUnixMs` or `addresses` is refused: the key would have no such limit.',
    source: decision('account'),
  }),
  listApiKeys: readRoute('/user/key/list', empty, account.keyListAnswer, {
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
    lasting: { scope: 'instances' },
    errors: 'plain',
    summary: "Register an ssh public key; it opens the caller's instances within seconds",
    source: decision('account'),
  }),
  listSshKeys: readRoute('/user/sshkey/list', empty, account.sshKeyListAnswer, {
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
  listSessions: readRoute('/user/session/list', empty, account.sessionListAnswer, {
    summary: "List the caller's browser sessions at the gateway, the last used first",
  }),
  revokeSession: jsonRoute('/user/session/revoke', account.idBody, account.emptyAnswer, {
    idempotent: true,
    summary: 'End a session at the gateway and close its connections',
  }),
  balance: readRoute('/balance', empty, account.balanceAnswer, {
    method: 'GET',
    errors: 'plain',
    summary: 'Return the balance of the caller in dollars',
    source: decision('account'),
  }),
} as const;
