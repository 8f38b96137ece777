/** Accounts and logins, the audit log, quotas, and who reaches which instance. */
import { markFilesStale } from '../../store/tables/instances.ts';
import { activeIdsOf } from '../../store/tables/instance-queries.ts';
import { DUE_WORK, task, type Caller, type Change, type Kernel, type Mutation, type Task } from '../kernel/ports.ts';
import { makeAccess, type AccessDeps } from './access.ts';
import { makeAudit, type AuditDeps, type Audit } from './audit/audit.ts';
import { makeRecordedRedeem, makeRecordSshLogin } from './audit/gateway-records.ts';
import { makeQuotas, type Quotas } from './quotas.ts';
import { makeRoutes, makeRouteTable } from './routing/gateway-routes.ts';
import { makeNotebookTokens } from './routing/notebook-tokens.ts';
import { makePorts, type PortDeps } from './routing/ports.ts';
import { makeRevocations } from './routing/revocations.ts';
import { makeSshHostKeys, makeSshIdentity } from './routing/ssh-host-key.ts';
import { makeTraffic } from './routing/traffic.ts';
import { makeShares, type ShareDeps } from './shares.ts';
import type { Access } from './types.ts';
import type { AccountAdministration } from './account-admin.ts';
import type { IdentityAdministration } from './identity-admin.ts';
import type { PasswordLinks } from './set-password.ts';
import type { Registration } from './registration.ts';
import type { Forwarding, Ports, RouteTable } from './routing/gateway-types.ts';

export interface AccessOptions
  extends
    Pick<PortDeps, 'portUrls'>,
    Pick<ShareDeps, 'shareUrl'>,
    Pick<AuditDeps, 'auditHeadFile' | 'auditRetentionMs'>,
    Pick<
      AccessDeps,
      | 'issuer'
      | 'audience'
      | 'argon2id'
      | 'firstCredit'
      | 'deletionGraceMs'
      | 'registration'
      | 'passwordUrl'
      | 'secondFactorRole'
      | 'consoleHost'
    > {
  /** Quota of accounts without one; default: the built-in one. */
  requestsPerSecond?: number;
}

type AccountDeps = Pick<Kernel, 'store' | 'changes' | 'scheduler'>;

const EXPIRE_INTERVAL_MS = 60_000;
/** Records are sealed within a second. */
const SEAL_INTERVAL_MS = 500;
const SWEEP_INTERVAL_MS = 3_600_000;

export type AccessParts = ReturnType<typeof wireAccess>['parts'];

export interface AccessUseCases {
  access: Access;
  accounts: AccountAdministration & IdentityAdministration & PasswordLinks & Registration;
  audit: Audit;
  quotas: Quotas;
  forwarding: Forwarding;
  routeTable: RouteTable;
  ports: Ports;
}

export function wireAccess(deps: Kernel & AccessOptions) {
  const { changes, reserve, time } = deps;
  const notebookTokens = makeNotebookTokens(deps);
  const withTokens = { ...deps, notebookTokens };
  const routes = makeRoutes(withTokens);
  const routeTable = makeRouteTable(withTokens);
  const revocations = makeRevocations();
  changes.subscribe('instance', ({ id }) => {
    if (id === undefined) return;
    routes.invalidate(id);
    routeTable.changed(id);
    revocations.publish({ instanceId: id });
  });
  changes.subscribe('account', ({ id }) => {
    if (id !== undefined) revocations.publish({ accountId: id });
  });
  const parts = {
    notebookTokens,
    routes,
    traffic: makeTraffic(time.elapsed),
    audit: makeAudit({ ...deps, isFull: reserve.isFull }),
    sshHostKey: makeSshHostKeys(deps.secretsKey),
    access: makeAccess({
      ...deps,
      onSshKeysChanged: async (tx, ownerId) => void (await markFilesStale(tx, { ownerId }, time.now())),
    }),
  };
  const { access, audit } = parts;
  const tasks: Task[] = [
    task('seal audit log', SEAL_INTERVAL_MS, () => audit.seal()),
    task('delete old audit records', EXPIRE_INTERVAL_MS, () => audit.deleteOld()),
    task('sweep access', SWEEP_INTERVAL_MS, () => access.sweep()),
  ];
  const publishing = makePublishing(deps);
  const shares = makeShares(deps);
  const filesStale = (): Change => ({ subject: 'instance', isDue: true });
  const credentialsRevoked = ({ accountId: id }: Caller): Change => ({ subject: 'account', id });
  const useCases: AccessUseCases = {
    access: {
      ...access,
      createSshKey: publishing(access.createSshKey, filesStale),
      deleteSshKey: publishing(access.deleteSshKey, filesStale),
      async endProviderLogins(login) {
        const ended = await access.endProviderLogins(login);
        for (const id of ended) changes.publish({ subject: 'account', id });
        return ended;
      },
      logout: publishing(access.logout, credentialsRevoked),
      revokeLogin: publishing(access.revokeLogin, credentialsRevoked),
      changePassword: publishing(access.changePassword, credentialsRevoked),
      secondFactors: {
        ...access.secondFactors,
        confirmTotp: publishing(access.secondFactors.confirmTotp, credentialsRevoked),
        deleteTotp: publishing(access.secondFactors.deleteTotp, credentialsRevoked),
      },
      passkeys: {
        ...access.passkeys,
        create: publishing(access.passkeys.create, credentialsRevoked),
        delete: publishing(access.passkeys.delete, credentialsRevoked),
      },
      deleteApiKey: publishing(access.deleteApiKey, credentialsRevoked),
      revokeSession: publishing(access.revokeSession, credentialsRevoked),
    },
    accounts: accountsOf(deps, parts),
    audit,
    quotas: makeQuotas(deps),
    ports: {
      ...makePorts(deps),
      share: shares.share,
      shares: shares.shares,
      unshare: publishing(shares.unshare, (_, { instanceId: id }) => ({ subject: 'instance', id })),
    },
    forwarding: {
      route: routes.route,
      dial: routes.dial,
      dialLoopback: routes.dialLoopback,
      beginTraffic: parts.traffic.beginTraffic,
      redeem: makeRecordedRedeem({ ...deps, ...parts }),
      session: access.grants.session,
      share: shares.resolve,
      onRevoked: revocations.onRevoked,
      ssh: makeSshIdentity({ ...deps, ...parts }),
      recordSshLogin: makeRecordSshLogin({ ...deps, ...parts }),
    },
    routeTable: { follow: routeTable.follow },
  };
  return { parts, useCases, tasks };
}

/** Publishes the change once the use case has committed. */
const makePublishing =
  ({ changes }: Pick<Kernel, 'changes'>) =>
  <More extends unknown[], Answer>(
    useCase: (caller: Caller, ...more: More) => Promise<Answer>,
    changeOf: (caller: Caller, ...more: More) => Change,
  ) =>
  async (caller: Caller, ...more: More): Promise<Answer> => {
    const answer = await useCase(caller, ...more);
    changes.publish(changeOf(caller, ...more));
    return answer;
  };

function accountsOf(
  { store, changes, scheduler }: AccountDeps,
  { access: { administration }, audit }: Pick<AccessParts, 'access' | 'audit'>,
): AccessUseCases['accounts'] {
  /** Rechecks what is open of the account and at its instances; stops those of a disabled one. */
  async function publishAccount(id: string): Promise<void> {
    changes.publish({ subject: 'account', id });
    for (const instanceId of await activeIdsOf(store.read, id))
      changes.publish({ subject: 'instance', id: instanceId });
    scheduler.runSoon(DUE_WORK);
  }
  const cuttingOff =
    <Body extends { accountId: string }, Answer>(useCase: Mutation<Body, Answer>): Mutation<Body, Answer> =>
    async (caller, body, idempotency) => {
      const answer = await useCase(caller, body, idempotency);
      await publishAccount(body.accountId);
      return answer;
    };
  const publishing = makePublishing({ changes });
  const ofBody = (_: Caller, { accountId: id }: { accountId: string }): Change => ({ subject: 'account', id });
  const loginsEnded = <Answer extends { accountId: string }>(answer: Answer): Answer => {
    changes.publish({ subject: 'account', id: answer.accountId });
    return answer;
  };
  return {
    ...administration,
    disable: cuttingOff(administration.disable),
    unlinkIdentity: publishing(administration.unlinkIdentity, ofBody),
    enable: cuttingOff(administration.enable),
    delete: cuttingOff(administration.delete),
    resetSecondFactor: publishing(administration.resetSecondFactor, ofBody),
    restore: cuttingOff(administration.restore),
    setPassword: (body, from) => administration.setPassword(body, from).then(loginsEnded),
    async resetAtHost(username) {
      const answer = loginsEnded(await administration.resetAtHost(username));
      audit.noticePending();
      return answer;
    },
    async resetSecondFactorAtHost(username) {
      const answer = loginsEnded(await administration.resetSecondFactorAtHost(username));
      audit.noticePending();
      return answer;
    },
  };
}
