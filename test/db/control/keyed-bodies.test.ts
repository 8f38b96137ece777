/** The stored form of a keyed request's body recognizes it, and reveals no secret. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Idempotency } from '../../../src/control/index.ts';
import { makeIdempotent } from '../../../src/control/kernel/idempotent.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { makeWorld } from '../../fixtures/control.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const keyed = (body: object): Idempotency => ({
  key: 'k',
  route: '/registry/create',
  bodyHash: sha256(JSON.stringify(body)),
});
const body = { server: 'registry.example.org', username: 'ann', secret: 'a secret' };

onBothEngines('a keyed request', { postgres: 'always' }, (open) => {
  test('stores no hash that allows guessing secrets offline', async () => {
    const store = await open();
    const { running, caller } = await makeWorld(store, { start: false });
    const given = keyed(body);
    const answer = await running.control.registries.create(caller, body, given);
    const [row] = await store.read.selectFrom('idempotency').select('bodyHash').execute();
    expect(row?.bodyHash).toMatch(/^[0-9a-f]{64}$/);
    expect(row?.bodyHash).not.toBe(given.bodyHash);
    expect(await running.control.registries.create(caller, body, given)).toEqual(answer);

    // Same request under the key of another installation.
    const again = (secretsKey: Uint8Array): Promise<object> =>
      store.write((tx) => makeIdempotent(secretsKey)(tx, caller.accountId, given, 1, async () => ({})));
    expect(await again(new Uint8Array(32).fill(7))).toEqual(answer);
    await expectRefused(again(new Uint8Array(32).fill(8)), 'idempotency_mismatch', /another body/);
  });
});
