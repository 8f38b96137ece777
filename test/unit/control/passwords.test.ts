/** Password hashes, and the buckets of the login rate limit. */
import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { getPriority } from 'node:os';
import { afterAll, describe, expect, test } from 'vitest';
import { addressBucket } from '../../../src/control/access/address-bucket.ts';
import { makeArgon2Threads } from '../../../src/control/access/argon2-threads.ts';
import { makeLoginRateLimit } from '../../../src/control/access/login-rate-limit.ts';
import { argon2id, makePasswords, type Argon2id } from '../../../src/control/access/passwords.ts';

const HOME = '192.0.2.7';

const threads = makeArgon2Threads();
afterAll(() => threads.stop());

describe('password hashes', () => {
  const passwordsWith = (work: Argon2id, atOnce = 2) => makePasswords({ randomBytes, argon2id: work, atOnce });
  const source = { account: 'anna', address: HOME };
  const yes = { source, mayStart: () => undefined, failed: () => undefined };

  test('uses argon2id PHC strings of 19 MiB, two passes, one lane, each with its own salt', async () => {
    const passwords = passwordsWith(threads.argon2id);
    const [first, second] = await Promise.all([
      passwords.hash('secret word', source),
      passwords.hash('secret word', source),
    ]);
    expect(first).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(second).not.toBe(first);
    expect(await passwords.verify('secret word', first, yes)).toBe(true);
    expect(await passwords.verify('secret wore', first, yes)).toBe(false);
    expect(await passwords.verify('secret word', null, yes)).toBe(false);
    await expect(passwords.verify('x', '$2b$10$abc', yes)).rejects.toThrow(/not an argon2id PHC string/);
  });

  test('are computed below the priority of requests', async () => {
    const nice = async (): Promise<number[]> => {
      const ids = await readdir('/proc/self/task');
      const stats = await Promise.all(ids.map((id) => readFile(`/proc/self/task/${id}/stat`, 'utf8').catch(() => '')));
      return stats.flatMap((stat) => Number(stat.slice(stat.lastIndexOf(')')).split(' ')[17] ?? 0));
    };
    const parameters = {
      message: Buffer.from('a'),
      nonce: randomBytes(16),
      tagLength: 32,
      memory: 64,
      passes: 1,
      parallelism: 1,
    };
    expect(Buffer.from(await threads.argon2id(parameters))).toEqual(await argon2id(parameters));
    expect((await nice()).toSorted((one, other) => one - other).slice(-2)).toEqual([getPriority(), 19]);
  });

  test('bounds concurrent hashes, starts them in order, and continues after a failure', async () => {
    let running = 0;
    let most = 0;
    let started = 0;
    const pending: (() => void)[] = [];
    const passwords = passwordsWith(async ({ tagLength }) => {
      running += 1;
      most = Math.max(most, running);
      started += 1;
      if (started === 3) {
        running -= 1;
        throw new Error('this one fails');
      }
      await new Promise<void>((resolve) => pending.push(resolve));
      running -= 1;
      return new Uint8Array(tagLength);
    }, 3);
    const order: number[] = [];
    const all = Promise.allSettled(
      Array.from({ length: 50 }, (_, i) =>
        passwords.verify('x', null, {
          ...yes,
          source: { account: `name-${i}`, address: HOME },
          mayStart: () => void order.push(i),
        }),
      ),
    );
    const done = { value: false };
    void all.then(() => (done.value = true));
    while (!done.value) {
      pending.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(most).toBe(3);
    expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect((await all).filter(({ status }) => status === 'rejected')).toHaveLength(1);
  });
});

describe('the login rate limit', () => {
  test('maps all addresses of one client to one bucket', () => {
    const buckets = [
      ['192.0.2.1', '192.0.2.1'],
      ['::ffff:192.0.2.1', '192.0.2.1'],
      ['::FFFF:192.0.2.1', '192.0.2.1'],
      ['::1', '0:0:0:0'],
      ['2001:db8::1', '2001:db8:0:0'],
      ['2001:0db8:0000:0000:ffff::1', '2001:db8:0:0'],
      ['2001:DB8:0:0:1:2:3:4', '2001:db8:0:0'],
      ['2001:db8:1:2::', '2001:db8:1:2'],
      ['fe80::1%eth0', 'fe80:0:0:0'],
      ['unix', 'unix'],
    ] as const;
    for (const [address, bucket] of buckets) expect(addressBucket(address), address).toBe(bucket);
  });

  test('bounds its entries in a flood of names and addresses', () => {
    const attempts = makeLoginRateLimit({ elapsed: () => 0 });
    for (let i = 0; i < 25_000; i++) {
      attempts.failed(`name-${i}`, `2001:db8:${(i >> 8).toString(16)}:${(i & 255).toString(16)}::1`);
      attempts.succeeded(`name-${i}`, `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    }
    expect(attempts.size).toBe(80_000);
    expect(() => attempts.check('name-99999', null)).not.toThrow();
  });
});
