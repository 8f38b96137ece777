import { createHmac, hkdfSync } from 'node:crypto';
import { auditText, type AuditFields, type ChainLink } from '../../../domain/access/audit.ts';

const KEY_BYTES = 32;

export interface AuditChain {
  hashOf(record: AuditFields, position: number, hashBefore: string): string;
  /** MAC of the last deleted record. */
  anchorMac(anchor: ChainLink): string;
}

/** HMAC-SHA-256 under a key of its own, derived from `secretsKey` (RFC 5869, 3.2). */
export function makeAuditChain(secretsKey: Uint8Array): AuditChain {
  const keyFor = (purpose: string) => Buffer.from(hkdfSync('sha256', secretsKey, '', purpose, KEY_BYTES));
  const recordKey = keyFor('records of the audit log');
  const anchorKey = keyFor('anchor of the audit log');
  const mac = (key: Buffer, text: string): string => createHmac('sha256', key).update(text).digest('hex');
  return {
    hashOf: (record, position, hashBefore) => mac(recordKey, auditText(record, position, hashBefore)),
    anchorMac: ({ position, hash }) => mac(anchorKey, `${position} ${hash}`),
  };
}
