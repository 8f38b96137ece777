/** Links that open a port to anyone until they expire, are revoked, or the instance terminates. */
import { instanceNotFound, Refusal } from '../../domain/refusal.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { lockInstance, ownedInstanceRow } from '../../store/tables/instances.ts';
import { deleteShare, insertShare, sharesOf, activeShare, type PortShareRow } from '../../store/tables/ports.ts';
import type { Store } from '../../store/store.ts';
import type { ShareInfo, OpenedPort, Ports } from '../routing/gateway-types.ts';
import type { Idempotent } from '../base/idempotent.ts';
import { lockOwnAccount } from './callers.ts';
import { makeVerifiedCache } from './verified-cache.ts';
import { secretFrom, SECRET, sha256Hex, uuidFrom, type RandomBytes } from './random.ts';

const MAX_PER_INSTANCE = 50;
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

export const makeShares = (deps: {
  store: Store;
  now: () => number;
  idempotent: Idempotent;
  randomBytes: RandomBytes;
  shareUrl: (link: { instanceId: string; port: number; token: string }) => string;
}): Shares => {
  const { store, now, idempotent, randomBytes, shareUrl } = deps;

  const known = makeVerifiedCache<OpenedPort & { shareId: string }>({
    now,
    maxEntries: MAX_CACHED,
    async verify(token) {
      const share = SECRET.test(token) ? await activeShare(store.read, sha256Hex(token), now()) : undefined;
      if (share === undefined) return null;
      const { id: shareId, instanceId, port, expiresAtMs } = share;
      return { subject: { shareId, instanceId, port, expiresAtMs }, expiresAtMs };
    },
  });

  return {
    resolve(token) {
      const opened = known.fresh(token);
      return opened === null ? known.find(token) : Promise.resolve(opened);
    },

    async share({ accountId }, { instanceId, port, forMs, name }, idempotency) {
      const token = secretFrom(randomBytes);
      const shareId = uuidFrom(randomBytes);
      const made = await store.write(async (tx) => {
        const nowMs = now();
        if (!(await lockInstance(tx, accountId, instanceId))) throw instanceNotFound();
        await lockOwnAccount(tx, accountId);
        // Repeating the answer would mean storing the token in clear.
        return idempotent(tx, accountId, idempotency, nowMs, async () => {
          const { length } = await sharesOf(tx, instanceId, nowMs);
          if (length >= MAX_PER_INSTANCE)
            throw new Refusal(
              'over_quota',
              `the instance has ${length} links to its ports, and may have ${MAX_PER_INSTANCE}; revoke one first with /instance/port/unshare`,
            );
          const share = { port, name, createdAtMs: nowMs, expiresAtMs: nowMs + forMs };
          await insertShare(tx, { ...share, id: shareId, hash: sha256Hex(token), instanceId, accountId });
          const data = { shareId, port, name, expiresAt: share.expiresAtMs };
          await appendEvent(tx, { accountId, atMs: nowMs, kind: 'instance.portShared', subjectId: instanceId, data });
          return { shareId, ...share };
        });
      });
      if (made.shareId !== shareId)
        throw new Refusal(
          'not_now',
          `this request made the link "${made.shareId}" before, and it was shown that once; if it is lost, revoke it with /instance/port/unshare and make another under a new Idempotency-Key`,
        );
      return { ...made, token, url: shareUrl({ instanceId, port, token }) };
    },

    async shares({ accountId }, instanceId) {
      if (!(await ownedInstanceRow(store.read, accountId, instanceId))) throw instanceNotFound();
      return (await sharesOf(store.read, instanceId, now())).map(listed);
    },

    async unshare({ accountId }, { instanceId, shareId }, idempotency) {
      await store.write(async (tx) => {
        const nowMs = now();
        if (!(await lockInstance(tx, accountId, instanceId))) throw instanceNotFound();
        await lockOwnAccount(tx, accountId);
        await idempotent(tx, accountId, idempotency, nowMs, async () => {
          const share = await deleteShare(tx, instanceId, shareId);
          if (!share)
            throw new Refusal(
              'not_found',
              `link ${JSON.stringify(shareId)} not found; POST /api/instance/port/shares names those of the instance`,
            );
          const data = { shareId, port: share.port, name: share.name };
          await appendEvent(tx, { accountId, atMs: nowMs, kind: 'instance.portUnshared', subjectId: instanceId, data });
          return {};
        });
      });
      known.invalidate((share) => share.shareId === shareId);
    },
  };
};
