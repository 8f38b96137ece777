/** Deliveries that an owner asks for, and what came of the last ones. */
import { Refusal } from '../../../domain/kernel/refusal.ts';
import type { Db } from '../../../store/store.ts';
import { eventsSince } from '../../../store/tables/events.ts';
import { resendSetAside, setAsideCount, setAsideOf, type SetAsideRow } from '../../../store/tables/webhook-backlog.ts';
import { deliveriesOf, type WebhookDeliveryRow, type WebhookRow } from '../../../store/tables/webhooks.ts';
import type { WebhookDelivery } from './deliver.ts';
import type { WebhookResult } from './send-webhook.ts';
import { writeOwnAccount } from '../../access/ports.ts';
import {
  type Caller,
  type Mutation,
  makeConcurrencyLimit,
  type UseCaseDeps,
  type WriteDeps,
} from '../../kernel/ports.ts';

export interface ManualDeliveries {
  test(caller: Caller, id: string): Promise<WebhookResult>;
  deliveries(caller: Caller, id: string): Promise<WebhookDeliveries>;
  redeliver(caller: Caller, body: { id: string; deliveryId: string }): Promise<WebhookDeliveryRow>;
  /** Returns how many events are sent again. */
  resend: Mutation<{ id: string; deliveryId?: string | undefined }, number>;
}

interface WebhookDeliveries {
  deliveries: WebhookDeliveryRow[];
  setAside: SetAsideRow[];
  /** Also of those that `setAside` has no room for. */
  setAsideCount: number;
}

export interface ManualDeliveryDeps extends WriteDeps, Pick<UseCaseDeps, 'randomUuid'> {
  webhookDelivery: Pick<WebhookDelivery, 'send' | 'deliver'>;
}

const SET_ASIDE_SHOWN = 100;

/** `find` returns a webhook of the caller, or refuses. */
export function makeManualDeliveries(
  deps: ManualDeliveryDeps,
  find: (db: Db, caller: Caller, id: string) => Promise<WebhookRow>,
): ManualDeliveries {
  const { store, time, randomUuid, webhookDelivery } = deps;
  const sending = makeConcurrencyLimit({
    perAccount: 2,
    total: 32,
    share: 1,
    retryAfterS: 5,
    full: {
      mine: (count) =>
        `${count} tests or redeliveries of this account are under way, its limit; wait for their answers`,
      all: (count) => `${count} tests or redeliveries are under way, the limit of this server; try again in a moment`,
    },
  });

  return {
    async test(caller, id) {
      const webhook = await find(store.read, caller, id);
      const release = sending.acquire(caller.accountId);
      try {
        const dataText = JSON.stringify({ webhookId: id });
        const message = { id: `msg_${randomUuid()}`, type: 'webhook.test', atMs: time.now(), dataText };
        const { retryAfterMs: _, ...result } = await webhookDelivery.send(webhook, message);
        return result;
      } finally {
        release();
      }
    },

    async deliveries(caller, id) {
      await find(store.read, caller, id);
      return {
        deliveries: await deliveriesOf(store.read, id),
        setAside: await setAsideOf(store.read, id, SET_ASIDE_SHOWN),
        setAsideCount: await setAsideCount(store.read, id),
      };
    },

    async redeliver(caller, { id, deliveryId }) {
      const webhook = await find(store.read, caller, id);
      const earlier = (await deliveriesOf(store.read, id)).find((one) => one.id === deliveryId);
      const at = earlier && (await eventsSince(store.read, earlier.accountId, earlier.seq - 1, 1));
      const event = at?.find(({ seq }) => seq === earlier?.seq);
      if (event === undefined) {
        const text = `delivery ${JSON.stringify(deliveryId)} is not stored, or its event is no longer; POST /api/webhook/deliveries lists the last ones`;
        throw new Refusal('not_found', text);
      }
      const release = sending.acquire(caller.accountId);
      try {
        return await webhookDelivery.deliver(webhook, event, (tx) => find(tx, caller, id));
      } finally {
        release();
      }
    },

    resend: (caller, { id, deliveryId }, idempotency) =>
      writeOwnAccount(deps, caller.accountId, idempotency, async (tx, nowMs) => {
        await find(tx, caller, id);
        const count = await resendSetAside(tx, { webhookId: id, id: deliveryId, nowMs });
        if (count > 0 || deliveryId === undefined) return count;
        const text = `delivery ${JSON.stringify(deliveryId)} is not set aside; POST /api/webhook/deliveries lists those that are`;
        throw new Refusal('not_found', text);
      }),
  };
}
