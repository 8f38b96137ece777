/** Webhooks of an account; those of administrators may cover the events of all accounts. */
import { isIP } from 'node:net';
import { isLocalServer } from '../../../domain/regions/image-ref.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { ADMIN_ROLE, hasRole } from '../../../domain/access/roles.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import {
  deleteWebhook,
  insertWebhook,
  kindsOf,
  ownedWebhook,
  updateWebhook,
  webhooksOf,
  type WebhookRow,
} from '../../../store/tables/webhooks.ts';
import type { Db } from '../../../store/store.ts';
import { webhookSealContext } from './attempt.ts';
import { makeManualDeliveries, type ManualDeliveries, type ManualDeliveryDeps } from './manual-deliveries.ts';
import { isPublicAddress } from './public-address.ts';
import { newWebhookSecret } from './sign-webhook.ts';
import { writeOwnAccount } from '../../access/ports.ts';
import type { Caller, Mutation, Seal } from '../../kernel/ports.ts';

export interface Webhook extends Pick<
  WebhookRow,
  'id' | 'url' | 'createdAtMs' | 'attempts' | 'failingSinceMs' | 'lastError'
> {
  kinds: string[];
  enabled: boolean;
  allAccounts: boolean;
}

export interface Webhooks extends ManualDeliveries {
  create: Mutation<{ url: string; kinds: string[]; allAccounts: boolean }, { webhook: Webhook; secret: string }>;
  list(caller: Caller): Promise<Webhook[]>;
  update: Mutation<
    { id: string; url?: string | undefined; kinds?: string[] | undefined; enabled?: boolean | undefined },
    Webhook
  >;
  delete: Mutation<{ id: string }, void>;
}

export interface WebhookDeps extends ManualDeliveryDeps {
  seal: Seal;
  randomBytes: (size: number) => Uint8Array;
  anyWebhookAddress: boolean;
}

const MAX_WEBHOOKS = 10;

const shown = (row: WebhookRow): Webhook => ({
  id: row.id,
  url: row.url,
  createdAtMs: row.createdAtMs,
  attempts: row.attempts,
  failingSinceMs: row.failingSinceMs,
  lastError: row.lastError,
  kinds: kindsOf(row),
  enabled: row.enabled === 1,
  allAccounts: row.allAccounts === 1,
});

export function makeWebhooks(deps: WebhookDeps): Webhooks {
  const { store, seal, time, randomBytes, randomUuid, anyWebhookAddress } = deps;
  const find = async (db: Db, caller: Caller, id: string): Promise<WebhookRow> => {
    const webhook = await ownedWebhook(db, caller.accountId, id);
    if (webhook === undefined)
      throw new Refusal('not_found', `webhook ${JSON.stringify(id)} not found; POST /api/webhook/list lists yours`);
    if (webhook.allAccounts === 1) requireAdmin(caller);
    return webhook;
  };

  const eventOf = (tx: Db, { accountId }: Caller, kind: string, { id, url }: Pick<WebhookRow, 'id' | 'url'>) =>
    // A URL may hold a secret in its path.
    appendEvent(tx, { accountId, atMs: time.now(), kind, subjectId: id, data: { host: new URL(url).host } });

  return {
    async create(caller, { url, kinds, allAccounts }, idempotency) {
      refuseUrl(url, anyWebhookAddress);
      if (allAccounts) requireAdmin(caller);
      const { accountId } = caller;
      const secret = newWebhookSecret(randomBytes);
      const id = randomUuid();
      // Stores the id alone, as for API keys: a repeat can't show the secret.
      const made = await writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        const { length } = await webhooksOf(tx, accountId);
        if (length >= MAX_WEBHOOKS)
          throw new Refusal('over_quota', `the account has ${length} webhooks, its limit; delete one first`);
        await eventOf(tx, caller, 'webhook.created', { id, url });
        await insertWebhook(tx, {
          id,
          ownerId: accountId,
          allAccounts: allAccounts ? 1 : 0,
          url,
          kinds: JSON.stringify(kinds),
          secret: seal.seal(secret, webhookSealContext(id)),
          createdAtMs: nowMs,
          enabled: 1,
          failingSinceMs: null,
        });
        return { id };
      });
      if (made.id !== id) {
        const text = `an earlier request with this Idempotency-Key created the webhook "${made.id}", and only its answer had the secret; if it is lost, delete the webhook and create another with a new key`;
        throw new Refusal('not_now', text);
      }
      return { webhook: shown(await find(store.read, caller, id)), secret };
    },

    list: async ({ accountId }) => (await webhooksOf(store.read, accountId)).map(shown),

    async update(caller, { id, url, kinds, enabled }, idempotency) {
      if (url !== undefined) refuseUrl(url, anyWebhookAddress);
      return writeOwnAccount(deps, caller.accountId, idempotency, async (tx) => {
        const before = await find(tx, caller, id);
        await eventOf(tx, caller, 'webhook.updated', { id, url: url ?? before.url });
        await updateWebhook(tx, id, {
          url: url ?? before.url,
          kinds: kinds === undefined ? before.kinds : JSON.stringify(kinds),
          enabled: (enabled ?? before.enabled === 1) ? 1 : 0,
          attempts: 0,
          failures: 0,
          nextAttemptAtMs: 0,
          failingSinceMs: null,
        });
        return shown(await find(tx, caller, id));
      });
    },

    delete: (caller, { id }, idempotency) =>
      writeOwnAccount(deps, caller.accountId, idempotency, async (tx) => {
        const webhook = await find(tx, { ...caller, roles: [ADMIN_ROLE], scopes: null }, id);
        await eventOf(tx, caller, 'webhook.deleted', webhook);
        await deleteWebhook(tx, id);
      }),

    ...makeManualDeliveries(deps, find),
  };
}

/** Neither another role nor an API key for other subjects may read the events of all. */
function requireAdmin({ roles, scopes }: Caller): void {
  if (hasRole(roles, ADMIN_ROLE) && (scopes === null || scopes.includes('admin'))) return;
  throw new Refusal(
    'forbidden',
    'only administrators, by a login or an API key with the scope "admin", use webhooks with allAccounts; leave it out for the events of your own account',
  );
}

function refuseUrl(written: string, anyAddress: boolean): void {
  const refuse = (why: string): never => {
    throw new Refusal('field_value', `field "url" ${why}`);
  };
  const url = URL.parse(written);
  const protocols = anyAddress ? ['https:', 'http:'] : ['https:'];
  if (url === null || !protocols.includes(url.protocol)) return refuse('must be an https URL');
  if (url.username + url.password !== '') refuse('must not hold a user name or password: requests are signed instead');
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isRefused = isLocalServer(url.host) || (isIP(host) !== 0 && !isPublicAddress(host));
  if (isRefused && !anyAddress)
    refuse(`names ${host}, which is not a public address; ask the operator to allow it (BERTH_WEBHOOK_ADDRESSES)`);
}
