import type { Generated } from 'kysely';
import type { Flag } from './columns.ts';

export interface WebhookTable {
  id: string;
  ownerId: string;
  /** Events of all accounts, while the owner is an administrator. */
  allAccounts: Flag;
  url: string;
  /** JSON; empty: all kinds. */
  kinds: string;
  /** Sealed. */
  secret: string;
  createdAtMs: number;
  enabled: Flag;
  /** Failed attempts in a row; 0 after a success. */
  attempts: Generated<number>;
  nextAttemptAtMs: Generated<number>;
  failingSinceMs: number | null;
  lastError: Generated<string>;
}

/** Number of the last event of an account that is delivered or left out. */
export interface WebhookCursorTable {
  webhookId: string;
  accountId: string;
  seq: number;
}

/** Last attempt for an event; the newest hundred of a webhook stay. */
export interface WebhookDeliveryTable {
  id: string;
  webhookId: string;
  accountId: string;
  seq: number;
  kind: string;
  atMs: number;
  attempts: number;
  delivered: Flag;
  /** HTTP status; 0 without an answer. */
  status: number;
  answer: string;
  tookMs: number;
}

export interface WebhookSchema {
  webhook: WebhookTable;
  webhookCursor: WebhookCursorTable;
  webhookDelivery: WebhookDeliveryTable;
}
