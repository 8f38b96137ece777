import type { Access, Control } from '../../../control/index.ts';
import { accessCookie } from '../credentials.ts';
import { nothing, type ClosedHandlers, type OpenHandlers } from './handler.ts';

export const openHandlers = ({ access, accounts }: Control, secureCookies: boolean): OpenHandlers => ({
  register: ({ body, from }) => accounts.register(body, from),

  async login({ body, from, userAgent, setHeader }) {
    const { accessToken, accessExpire } = await access.login(body, from, userAgent);
    setHeader('set-cookie', accessCookie(accessToken, accessExpire, secureCookies));
    return { accessToken, accessExpire };
  },
});

export const accountHandlers = (access: Access, secureCookies: boolean) =>
  ({
    async logout(caller, { setHeader }) {
      await access.logout(caller);
      setHeader('set-cookie', accessCookie('', 0, secureCookies));
      return {};
    },
    async listLogins(caller) {
      const logins = await access.listLogins(caller);
      return {
        logins: logins.map(({ createdAtMs, lastUsedAtMs, expiresAtMs, ...login }) => ({
          ...login,
          createdAtUnixMs: createdAtMs,
          lastUsedAtUnixMs: lastUsedAtMs,
          expiresAtUnixMs: expiresAtMs,
        })),
      };
    },
    revokeLogin: (caller, { body, idempotency }) => access.revokeLogin(caller, body, idempotency).then(nothing),
    async changePassword(caller, { body, setHeader }) {
      await access.changePassword(caller, body);
      setHeader('set-cookie', accessCookie('', 0, secureCookies));
      return {};
    },
    async userInfo({ accountId, username, email, roles }) {
      return { userId: accountId, username, email, group: [...roles] };
    },
    createUser: (caller, { body, idempotency }) => access.createUser(caller, body, idempotency),
    createApiKey: (caller, { body: { expiresAtUnixMs: expiresAtMs, ...body }, idempotency }) =>
      access.createApiKey(caller, { ...body, expiresAtMs }, idempotency),
    listApiKeys: (caller) => access.listApiKeys(caller),
    deleteApiKey: (caller, { body, idempotency }) => access.deleteApiKey(caller, body, idempotency).then(nothing),
    createSshKey: (caller, { body, idempotency }) => access.createSshKey(caller, body, idempotency),
    listSshKeys: (caller) => access.listSshKeys(caller),
    deleteSshKey: (caller, { body, idempotency }) => access.deleteSshKey(caller, body, idempotency).then(nothing),
    async listSessions(caller) {
      const sessions = await access.listSessions(caller);
      return {
        sessions: sessions.map(({ openedAtMs, lastUsedAtMs, ...session }) => ({
          ...session,
          openedAtUnixMs: openedAtMs,
          lastUsedAtUnixMs: lastUsedAtMs,
        })),
      };
    },
    revokeSession: (caller, { body, idempotency }) => access.revokeSession(caller, body, idempotency).then(nothing),
    balance: (caller) => access.balance(caller),
  }) satisfies Partial<ClosedHandlers>;
