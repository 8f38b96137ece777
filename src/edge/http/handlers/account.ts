/** Login, account, keys and sessions. */
import type { Access } from '../../../control/index.ts';
import { accessCookie } from '../credentials.ts';
import type { ClosedHandlers, OpenHandlers } from './handler.ts';

export const openHandlers = (access: Access, secureCookies: boolean): OpenHandlers => ({
  async login({ body, from, setHeader }) {
    const { accessToken, accessExpire } = await access.login(body, from);
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
    async changePassword(caller, { body, setHeader }) {
      await access.changePassword(caller, body);
      setHeader('set-cookie', accessCookie('', 0, secureCookies));
      return {};
    },
    async userInfo({ accountId, username, email, roles }) {
      return { userId: accountId, username, email, group: [...roles] };
    },
    createUser: (caller, { body, idempotency }) => access.createUser(caller, body, idempotency),
    createApiKey: (caller, { body, idempotency }) => access.createApiKey(caller, body, idempotency),
    listApiKeys: (caller) => access.listApiKeys(caller),
    async deleteApiKey(caller, { body, idempotency }) {
      await access.deleteApiKey(caller, body, idempotency);
      return {};
    },
    createSshKey: (caller, { body, idempotency }) => access.createSshKey(caller, body, idempotency),
    listSshKeys: (caller) => access.listSshKeys(caller),
    async deleteSshKey(caller, { body, idempotency }) {
      await access.deleteSshKey(caller, body, idempotency);
      return {};
    },
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
    async revokeSession(caller, { body, idempotency }) {
      await access.revokeSession(caller, body, idempotency);
      return {};
    },
    balance: (caller) => access.balance(caller),
  }) satisfies Partial<ClosedHandlers>;
