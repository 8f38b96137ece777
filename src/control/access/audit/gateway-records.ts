/** Records links and ssh logins in control: the gateway that serves them may be another process. */
import { AUDIT_OK } from '../../../domain/access/audit.ts';
import { accountById } from '../../../store/tables/accounts.ts';
import type { InternalAccess } from '../access.ts';
import type { Forwarding } from '../routing/gateway-types.ts';
import type { Audit } from './audit.ts';
import type { UseCaseDeps } from '../../kernel/ports.ts';

interface RecordedRedeemDeps extends Pick<UseCaseDeps, 'store' | 'randomUuid'> {
  access: Pick<InternalAccess, 'grants'>;
  audit: Pick<Audit, 'record'>;
}

export const makeRecordedRedeem =
  ({ access, audit, store, randomUuid }: RecordedRedeemDeps): Forwarding['redeem'] =>
  async (handover, { address, userAgent }) => {
    const redeemed = await access.grants.redeem(handover);
    const account = redeemed === null ? undefined : await accountById(store.read, redeemed.accountId);
    await audit.record({
      route: 'gatewayOpen',
      outcome: redeemed === null ? 'not_found' : AUDIT_OK,
      caller: account === undefined ? null : { accountId: account.id, username: account.username, sessionId: null },
      credential: 'link',
      loginName: null,
      address,
      userAgent,
      subjects: redeemed === null ? [] : [redeemed.instanceId],
      requestId: randomUuid(),
    });
    return redeemed;
  };

export const makeRecordSshLogin =
  ({ audit, randomUuid }: Pick<RecordedRedeemDeps, 'audit' | 'randomUuid'>): Forwarding['recordSshLogin'] =>
  async ({ instanceId, account, fingerprint, address, program, atMs }) =>
    audit.record({
      route: 'sshLogin',
      outcome: account === null ? 'not_logged_in' : AUDIT_OK,
      caller: account === null ? null : { ...account, sessionId: null },
      credential: account === null ? 'none' : 'sshKey',
      credentialId: fingerprint,
      loginName: null,
      address,
      userAgent: program,
      subjects: [instanceId],
      requestId: randomUuid(),
      atMs,
    });
