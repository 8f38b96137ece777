/** Accounts, logins, keys and quotas; the audit log; access to ports. */
import { routeNames, routeOf } from '../../../contract/routes.ts';
import type { Control, ShareInfo } from '../../../control/index.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { accessCookie } from '../credentials.ts';
import { presented, type Handlers } from '../handler.ts';

type Account = Awaited<ReturnType<Control['accounts']['get']>>['account'];
type Link = Awaited<ReturnType<Control['accounts']['invite']>>;

export const publicAccount = ({ createdAtMs, disabledAtMs, deleteAtMs, ...account }: Account) => ({
  ...account,
  createdAtUnixMs: createdAtMs,
  disabledAtUnixMs: disabledAtMs,
  deleteAtUnixMs: deleteAtMs,
});

const shown = <More extends { account: Account }>({ account, ...more }: More) => ({
  account: publicAccount(account),
  ...more,
});
const shownIdentities = ({ identities }: Awaited<ReturnType<Control['accounts']['identities']>>) => ({
  identities: identities.map(({ createdAtMs, ...identity }) => ({ ...identity, createdAtUnixMs: createdAtMs })),
});
const publicLink = ({ expiresAtMs, ...link }: Link) => ({ ...link, expiresAtUnixMs: expiresAtMs });
const publicShare = ({ createdAtMs, expiresAtMs, ...share }: ShareInfo) => ({
  ...share,
  createdAtUnixMs: createdAtMs,
  expiresAtUnixMs: expiresAtMs,
});

const readNames = routeNames.filter((name) => routeOf(name).reads);

export const openHandlers = ({ access, accounts }: Control, secureCookies: boolean): Handlers['open'] => {
  const withCookie = (
    login: { accessToken: string; accessExpire: number },
    setHeader: (name: string, value: string) => void,
  ): typeof login => {
    setHeader('set-cookie', accessCookie(login.accessToken, login.accessExpire, secureCookies));
    return login;
  };
  return {
    register: ({ body, from }) => accounts.register(body, from),
    login: async ({ body, from, userAgent, setHeader }) =>
      withCookie(await access.login(body, from, userAgent), setHeader),
    beginPasskeyLogin: async ({ passkeySite }) => access.passkeys.beginLogin(passkeySite()),
    loginWithPasskey: async ({ body, passkeySite, from, userAgent, setHeader }) =>
      withCookie(await access.passkeys.login(body, passkeySite(), from, userAgent), setHeader),
  };
};

export const passkeyHandlers = ({ access: { passkeys } }: Control) =>
  ({
    beginPasskey: (caller, { body, passkeySite }) => passkeys.begin(caller, body, passkeySite()),
    createPasskey: (caller, { body, passkeySite }) => passkeys.create(caller, body, passkeySite()),
  }) satisfies Partial<Handlers['ofRequest']>;

/** End of a login and the cookie. */
export const logoutHandlers = ({ access }: Control, secureCookies: boolean) =>
  ({
    async logout(caller, { setHeader }) {
      await access.logout(caller);
      setHeader('set-cookie', accessCookie('', 0, secureCookies));
    },
    async changePassword(caller, { body, setHeader }) {
      await access.changePassword(caller, body);
      setHeader('set-cookie', accessCookie('', 0, secureCookies));
    },
  }) satisfies Partial<Handlers['ofRequest']>;

export const accessHandlers = ({ access, accounts, audit, ports, quotas }: Control, issuer: string | null) =>
  ({
    userInfo: async ({ accountId, username, email, roles }) => ({
      userId: accountId,
      username,
      email,
      group: [...roles],
    }),
    getSecondFactor: access.secondFactors.get,
    createTotp: access.secondFactors.createTotp,
    confirmTotp: access.secondFactors.confirmTotp,
    deleteTotp: access.secondFactors.deleteTotp,
    createRecoveryCodes: access.secondFactors.createRecoveryCodes,
    deletePasskey: access.passkeys.delete,
    listLogins: access.listLogins,
    revokeLogin: access.revokeLogin,
    createUser: access.createUser,
    createApiKey: access.createApiKey,
    listApiKeys: access.listApiKeys,
    deleteApiKey: access.deleteApiKey,
    createSshKey: access.createSshKey,
    listSshKeys: access.listSshKeys,
    deleteSshKey: access.deleteSshKey,
    listSessions: access.listSessions,
    revokeSession: access.revokeSession,
    balance: access.balance,

    async listAccounts(_, { pager, ...filter }) {
      const { accounts: rows, totalEntries } = await accounts.list(filter, pager);
      return { accounts: rows.map(publicAccount), totalEntries };
    },
    getAccount: (_, { accountId }) => accounts.get(accountId).then(shown),
    inviteAccount: presented(accounts.invite, publicLink),
    resetAccountPassword: presented(accounts.resetPassword, publicLink),
    disableAccount: presented(accounts.disable, shown),
    enableAccount: presented(accounts.enable, shown),
    setAccountRole: presented(accounts.setRole, shown),
    resetSecondFactor: presented(accounts.resetSecondFactor, shown),
    deleteAccount: presented(accounts.delete, shown),
    restoreAccount: presented(accounts.restore, shown),

    listIdentities: (_, { accountId }) => accounts.identities(accountId).then(shownIdentities),
    linkIdentity: presented(accounts.linkIdentity, shownIdentities),
    unlinkIdentity: presented(accounts.unlinkIdentity, shownIdentities),
    async moveIdentities(caller, body, idempotency) {
      if (issuer !== null && body.toIssuer !== issuer) {
        const message = `field "toIssuer": must be ${JSON.stringify(issuer)}, the login provider of this server: identities of another open nothing; change BERTH_OIDC_ISSUER and restart first`;
        throw new Refusal('field_value', message);
      }
      return accounts.moveIdentities(caller, body, idempotency);
    },

    listQuotas: ({ accountId }) => quotas.get(accountId),
    getQuotas: (_, { accountId = null }) => quotas.get(accountId),
    setQuotas: quotas.set,

    async listAudit(_, { pager, fromUnixMs, toUnixMs, withoutReads = false, ...filter }) {
      const onlyRefusedOf = withoutReads ? readNames : [];
      const found = await audit.list({ ...filter, onlyRefusedOf, fromMs: fromUnixMs, toMs: toUnixMs }, pager);
      const records = found.records.map(({ atMs, subjects, ...record }) => ({
        ...record,
        atUnixMs: atMs,
        subjectIds: subjects,
      }));
      return { records, totalEntries: found.totalEntries };
    },

    setPortAccess: async (caller, body) => ({ instanceId: body.instanceId, port: await ports.setAccess(caller, body) }),
    listPorts: async (caller, { instanceId }) => ({ instanceId, ports: await ports.list(caller, instanceId) }),
    async sharePort(caller, { seconds, name = '', ...at }, idempotency) {
      const { url, token, ...share } = await ports.share(caller, { ...at, forMs: seconds * 1_000, name }, idempotency);
      return { ...publicShare(share), url, token };
    },
    listShares: async (caller, { instanceId }) => ({
      shares: (await ports.shares(caller, instanceId)).map(publicShare),
    }),
    unsharePort: ports.unshare,
  }) satisfies Partial<Handlers['closed']>;
