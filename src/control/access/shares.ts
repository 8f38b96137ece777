/** Links that open a port to anyone until they expire, are revoked, or the instance terminates. */
import { instanceNotFound, Refusal } from '../../domain/kernel/refusal.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { lockInstance, ownedInstanceRow } from '../../store/tables/instances.ts';
import {
  countShares,
  deleteShare,
  insertShare,
  sharesOf,
  activeShare,
  portAccessOf,
  type PortShareRow,
} from '../../store/tables/ports.ts';
import type { Db } from '../../store/store.ts';
import { requireQuota } from './quotas.ts';
import type { ShareInfo, OpenedPort, Ports } from './routing/gateway-types.ts';
import { writeOwnAccount, type CredentialDeps } from './callers.ts';
import { makeVerifiedCache } from './verified-cache.ts';
import { secretFrom, SECRET, sha256Hex, uuidFrom } from './random.ts';

const MAX_CACHED = 10_000;

export interface Shares extends Pick<Ports, 'share' | 'shares' | 'unshare'> {
  resolve(token: string): Promise<OpenedPort | null>;
}

const listed = ({ id, port, name, createdAtMs, expiresAtMs }: PortShareRow): ShareInfo => ({
  shareId: id,
  port,
  name,
  createdAtMs,
  expiresAtMs,
});

const ofOwnerAlone = (port: number): Refusal =>
  new Refusal(
    'not_now',
    `port ${port} has the access "loopback", which is for its owner alone: a link would open nothing; choose another access first`,
  );

export interface ShareDeps extends CredentialDeps {
  shareUrl: (link: { instanceId: string; port: number; token: string }) => string;
}

export const makeShares = (deps: ShareDeps): Shares => {
  const { store, time, randomBytes, shareUrl } = deps;

  const lockingInstance = (instanceId: string) => ({
    ...deps,
    async lockFirst(tx: Db, accountId: string) {
      if (!(await lockInstance(tx, accountId, instanceId))) throw instanceNotFound();
    },
  });

  const known = makeVerifiedCache<OpenedPort & { shareId: string }>({
    time,
    maxEntries: MAX_CACHED,
    async verify(token) {
      const share = SECRET.test(token) ? await activeShare(store.read, sha256Hex(token), time.now()) : undefined;
      if (share === undefined) return null;
      const { id: shareId, instanceId, port, expiresAtMs } = share;
      return { subject: { shareId, instanceId, port, expiresAtMs }, expiresAtMs };
    },
  });

  return {
    resolve: known.find,

    async share({ accountId }, { instanceId, port, forMs, name }, idempotency) {
      const token = secretFrom(randomBytes);
      const shareId = uuidFrom(randomBytes);
      // Repeating the answer would mean storing the token in clear.
      const made = await writeOwnAccount(lockingInstance(instanceId), accountId, idempotency, async (tx, nowMs) => {
        const row = await ownedInstanceRow(tx, accountId, instanceId);
        if (row && portAccessOf(row).get(port) === 'loopback') throw ofOwnerAlone(port);
        await requireQuota(tx, accountId, 'shares', await countShares(tx, accountId, nowMs));
        const share = { port, name, createdAtMs: nowMs, expiresAtMs: nowMs + forMs };
        await insertShare(tx, { ...share, id: shareId, hash: sha256Hex(token), instanceId, accountId });
        const data = { shareId, port, name, expiresAt: share.expiresAtMs };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'instance.portShared', subjectId: instanceId, data });
        return { shareId, ...share };
      });
      if (made.shareId !== shareId) {
        const message = `an earlier request with this Idempotency-Key created the link "${made.shareId}", and only its answer had the token; if the token is lost, revoke the link with /instance/port/unshare and create another with a new Idempotency-Key`;
        throw new Refusal('not_now', message);
      }
      return { ...made, token, url: shareUrl({ instanceId, port, token }) };
    },

    async shares({ accountId }, instanceId) {
      if (!(await ownedInstanceRow(store.read, accountId, instanceId))) throw instanceNotFound();
      return (await sharesOf(store.read, instanceId, time.now())).map(listed);
    },

    async unshare({ accountId }, { instanceId, shareId }, idempotency) {
      await writeOwnAccount(lockingInstance(instanceId), accountId, idempotency, async (tx, nowMs) => {
        const share = await deleteShare(tx, instanceId, shareId);
        if (!share) {
          const message = `link ${JSON.stringify(shareId)} not found; POST /api/instance/port/shares lists the links of the instance`;
          throw new Refusal('not_found', message);
        }
        const data = { shareId, port: share.port, name: share.name };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'instance.portUnshared', subjectId: instanceId, data });
        return {};
      });
      known.invalidate((share) => share.shareId === shareId);
    },
  };
};
