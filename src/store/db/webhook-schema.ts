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
  /** Failed attempts and refusals in a row; 0 after a success. */
  attempts: Generated<number>;
  /** Failed attempts in a row without the refusals: the back-off grows with them. */
  failures: Generated<number>;
  nextAttemptAtMs: Generated<number>;
  failingSinceMs: number | null;
  lastError: Generated<string>;
}

/** Number of the last event of an account that is delivered, left out or in the backlog. */
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

/**
 * Event that the cursor has passed without a delivery. It waits: the receiver refused it, or an
 * earlier one of its subject. Or it is set aside, and sent again on demand. Ends with its event.
 */
export interface WebhookBacklogTable {
  /** Message ID. */
  id: string;
  webhookId: string;
  accountId: string;
  seq: number;
  subjectId: string;
  refusals: number;
  /** Next attempt, the same for all events that wait for one subject; null: set aside. */
  dueAtMs: number | null;
  /** Null while the event waits. */
  setAsideAtMs: number | null;
  /** HTTP status of the last refusal; 0 without one. */
  status: number;
  answer: string;
}

export interface WebhookSchema {
  webhook: WebhookTable;
  webhookBacklog: WebhookBacklogTable;
  webhookCursor: WebhookCursorTable;
  webhookDelivery: WebhookDeliveryTable;
}
