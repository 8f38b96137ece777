/** Messages in the form of Standard Webhooks (https://www.standardwebhooks.com), version 1. */
import { createHash, createHmac } from 'node:crypto';

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;

export const newWebhookSecret = (randomBytes: (size: number) => Uint8Array): string =>
  PREFIX + Buffer.from(randomBytes(SECRET_BYTES)).toString('base64');

/** The same for each attempt, so that a receiver can leave out repeats. */
export const messageId = (webhookId: string, accountId: string, seq: number): string =>
  `msg_${createHash('sha256').update(`${webhookId} ${accountId} ${seq}`).digest('base64url').slice(0, 32)}`;

export function signedHeaders(
  secret: string,
  { id, atMs, body }: { id: string; atMs: number; body: string },
): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'user-agent': 'Berth-Webhooks',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  };
}
