/** What is kept of the body of a keyed request: enough to know it again, and nothing to guess a secret by. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Idempotency } from '../../../src/control/index.ts';
import { makeIdempotent } from '../../../src/control/base/idempotent.ts';
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

onBothEngines('of a keyed request', { postgres: 'always' }, (open) => {
  test('no hash is kept that who knows all but the secret could try secrets on', async () => {
    const store = await open();
    const { running, caller } = await makeWorld(store, { start: false });
    const given = keyed(body);
    const answer = await running.control.registries.create(caller, body, given);
    const [row] = await store.read.selectFrom('idempotency').select('bodyHash').execute();
    expect(row?.bodyHash).toMatch(/^[0-9a-f]{64}$/);
    expect(row?.bodyHash).not.toBe(given.bodyHash);
    expect(await running.control.registries.create(caller, body, given)).toEqual(answer);

    // The same request is another one under another key of an installation: what is kept can't be made without it.
    const again = (secretsKey: Uint8Array): Promise<object> =>
      store.write((tx) => makeIdempotent(secretsKey)(tx, caller.accountId, given, 1, async () => ({})));
    expect(await again(new Uint8Array(32).fill(7))).toEqual(answer);
    await expectRefused(again(new Uint8Array(32).fill(8)), 'idempotency_mismatch', /another body/);
  });
});
