/** Names what ends the rows of each table. A new table does not compile without an answer here. */
import type { Schema } from './schema.ts';

/**
 * - `living`: rows of what exists, deleted with it; a quota, the catalog or a limit bounds it.
 * - `expires`: a task deletes them after a time.
 * - `books`: kept for good, since a statement of any month is read from them.
 */
export type RowsEnd = 'living' | 'expires' | 'books';

export const rowsEnd: Readonly<Record<keyof Schema, RowsEnd>> = {
  account: 'living',
  apiKey: 'living',
  audit: 'expires',
  auditPending: 'expires',
  auditSubject: 'expires',
  budget: 'living',
  creditGrant: 'books',
  disk: 'living',
  dueAct: 'living',
  egress: 'living',
  entry: 'books',
  event: 'expires',
  gatewayGrant: 'expires',
  gpuUse: 'expires',
  idempotency: 'expires',
  identity: 'living',
  image: 'living',
  instance: 'expires',
  instanceType: 'living',
  label: 'expires',
  metricHour: 'expires',
  metricMinute: 'expires',
  mount: 'living',
  nodePort: 'living',
  operation: 'expires',
  orphan: 'expires',
  paidTime: 'living',
  passwordLink: 'expires',
  payment: 'books',
  paymentRefund: 'books',
  pool: 'living',
  portShare: 'expires',
  priceChange: 'books',
  quarantine: 'living',
  quota: 'living',
  region: 'living',
  regionUse: 'expires',
  registryCredential: 'living',
  session: 'expires',
  setting: 'living',
  signingKey: 'expires',
  snapshot: 'living',
  sshKey: 'living',
  template: 'living',
  usagePeriod: 'books',
  formerAccount: 'books',
  variable: 'living',
  volume: 'living',
  webhook: 'living',
  webhookBacklog: 'expires',
  webhookCursor: 'living',
  webhookDelivery: 'expires',
};
