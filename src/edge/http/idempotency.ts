/** The `Idempotency-Key` header: which request it stands for is the hash of the validated body, so that spelling does not matter. */
import { createHash } from 'node:crypto';
import type { Idempotency } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';

const KEY = /^[\x21-\x7e]{1,255}$/;

export function idempotencyOf(header: string | string[] | undefined, route: string, body: unknown): Idempotency | null {
  if (header === undefined) return null;
  const key = String(header);
  if (!KEY.test(key)) {
    throw new Refusal(
      'field_value',
      'the header "Idempotency-Key" must be 1 to 255 visible ASCII characters, for example a UUID',
    );
  }
  return { key, route, bodyHash: createHash('sha256').update(canonicalJson(body)).digest('hex') };
}

/** JSON with the members of each object in the order of their names. The schema has bounded the depth. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(',')}}`;
}
