/** The queue of password hashes, with hashes that run until the test ends them. */
import { expect, test } from 'vitest';
import { makeHashQueue, type HashSource } from '../../../src/control/access/hash-queue.ts';
import { settle } from '../async/settle.ts';

const HERE = '192.0.2.7';
const FLOODER = '198.51.100.1';

function openQueue(atOnce = 2) {
  const queue = makeHashQueue({ atOnce });
  const started: string[] = [];
  const running: (() => void)[] = [];
  const hash = async (name: string): Promise<void> => {
    started.push(name);
    await new Promise<void>((resolve) => running.push(resolve));
  };
  return {
    started,
    get running() {
      return running.length;
    },
    add: (name: string, source: HashSource) => queue.run(source, () => hash(name)),
    flood: (count: number, source: (index: number) => HashSource) =>
      Promise.all(Array.from({ length: count }, (_, index) => queue.run(source(index), () => hash('flood')))),
    /** Ends the oldest hash. */
    async finish() {
      running.shift()?.();
      await settle();
    },
    async finishAll(all: Promise<unknown>) {
      let done = false;
      void all.finally(() => (done = true)).catch(() => {});
      while (!done) await this.finish();
      return all;
    },
  };
}

const anna = (address = HERE): HashSource => ({ account: 'anna', address });
const bert = (address = HERE): HashSource => ({ account: 'bert', address });

test('hashes one password of an account at a time, in order of arrival', async () => {
  const queue = openQueue();
  const all = Promise.all(['first', 'second', 'third'].map((name) => queue.add(name, anna())));
  await settle();
  expect(queue.started).toEqual(['first']);
  await queue.finish();
  expect(queue.started).toEqual(['first', 'second']);
  expect(queue.running).toBe(1);
  await queue.finishAll(all);
});

test('starts a hash at once while 150 of another account wait, from the same address too', async () => {
  for (const address of [HERE, FLOODER]) {
    const queue = openQueue();
    const flood = queue.flood(150, () => anna(FLOODER));
    await settle();
    const bertsHash = queue.add('bert', bert(address));
    await settle();
    expect(queue.started).toEqual(['flood', 'bert']);
    await queue.finishAll(Promise.all([flood, bertsHash]));
  }
});

test.each([
  {
    title: 'a hash by one other while 150 of two accounts wait each',
    count: 300,
    accountOf: (index: number) => `account-${index % 2}`,
  },
  {
    title: 'an address by one hash while another address sends a thousand names',
    count: 1_000,
    accountOf: (index: number) => `name-${index}`,
  },
])('delays $title', async ({ count, accountOf }) => {
  const queue = openQueue();
  const flood = queue.flood(count, (index) => ({ account: accountOf(index), address: FLOODER }));
  await settle();
  const bertsHash = queue.add('bert', bert());
  await settle();
  await queue.finish();
  expect(queue.started).toEqual(['flood', 'flood', 'bert']);
  await queue.finishAll(Promise.all([flood, bertsHash]));
});

test('serves the owner next while another address sends 150 logins of the same account', async () => {
  const queue = openQueue();
  const flood = queue.flood(150, () => anna(FLOODER));
  await settle();
  const ownHash = queue.add('owner', anna());
  await settle();
  await queue.finish();
  expect(queue.started).toEqual(['flood', 'owner']);
  await queue.finishAll(Promise.all([flood, ownHash]));
});

test('counts all addresses of an IPv6 client as one', async () => {
  const queue = openQueue();
  const flood = queue.flood(1_000, (index) => ({ account: `name-${index}`, address: `2001:db8:1:2::${index}` }));
  await settle();
  const bertsHash = queue.add('bert', bert('2001:db8:1:3::1'));
  await settle();
  await queue.finish();
  expect(queue.started.at(-1)).toBe('bert');
  await queue.finishAll(Promise.all([flood, bertsHash]));
});

test('refuses more than 256 waiting for one account from one address, and nobody else', async () => {
  const queue = openQueue();
  const flood = queue.flood(256, () => anna(FLOODER));
  await expect(queue.add('one more', anna(FLOODER))).rejects.toMatchObject({
    code: 'too_many_requests',
    retryAfterS: 5,
    message: expect.stringContaining('256 for this account'),
  });
  const others = [queue.add('owner', anna()), queue.add('bert', bert(FLOODER))];
  await queue.finishAll(Promise.all([flood, ...others]));
  await queue.finishAll(queue.flood(256, () => anna(FLOODER)));
});

test('refuses more than 1,024 waiting from one address, and no other address', async () => {
  const queue = openQueue();
  const flood = queue.flood(1_024, (index) => ({ account: `name-${index}`, address: FLOODER }));
  await expect(queue.add('one more', bert(FLOODER))).rejects.toMatchObject({
    code: 'too_many_requests',
    message: expect.stringContaining('1024 from this address'),
  });
  const bertsHash = queue.add('bert', bert());
  await queue.finishAll(Promise.all([flood, bertsHash]));
});

test('continues after a hash that fails', async () => {
  const { run } = makeHashQueue({ atOnce: 1 });
  const broken = run(anna(), () => Promise.reject(new Error('out of memory')));
  const next = run(anna(), async () => 'hashed');
  await expect(broken).rejects.toThrow('out of memory');
  expect(await next).toBe('hashed');
});
