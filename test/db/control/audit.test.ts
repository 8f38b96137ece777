/** The audit log: order, hashes, retention, floods, and what its verification finds. */
import { expect, test } from 'vitest';
import { makeAudit } from '../../../src/control/access/audit/audit.ts';
import { makeAuditChain } from '../../../src/control/access/audit/chain.ts';
import type { AuditedRequest } from '../../../src/control/access/audit/record-writer.ts';
import { verifyAudit, type AuditVerdict } from '../../../src/control/access/audit/verify.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { ChainLink } from '../../../src/domain/access/audit.ts';
import { auditAfter, auditHead, saveAuditHead } from '../../../src/store/tables/audit.ts';
import { saveSetting } from '../../../src/store/tables/catalog.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { secretsKey } from '../../fixtures/test-seal.ts';

const chain = makeAuditChain(secretsKey);
const SUBJECT = '7b1e4a52-6f3d-4c0b-8a27-0d5b9c3e1f64';
const OTHER = '5e9a7c31-2b84-4f0d-9c6e-1a3b5d7f9e20';
const ANN = { accountId: 'ann', username: 'ann', sessionId: 'login-1' };
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 3_600_000;
const page = { currentPage: 1, pageSize: 100 };

const request = (more: Partial<AuditedRequest> = {}): AuditedRequest => ({
  route: 'stop',
  outcome: 'ok',
  caller: ANN,
  loginName: null,
  address: '192.0.2.1',
  userAgent: 'test',
  subjects: [SUBJECT],
  requestId: 'r',
  ...more,
});

function setUp(store: Store) {
  const clock = { ms: 1_000 * DAY_MS };
  const errors: { facts: object; text: string }[] = [];
  const ignore = (): void => {};
  const log = {
    debug: ignore,
    info: ignore,
    warn: ignore,
    error: (facts: object, text: string) => void errors.push({ facts, text }),
  };
  const file: { head: ChainLink | null } = { head: null };
  const start = (more: { isFull?: () => boolean } = {}) =>
    makeAudit({
      ...more,
      store,
      time: { ...realTime, now: () => clock.ms, elapsed: () => clock.ms },
      log,
      secretsKey,
      auditRetentionMs: 10 * DAY_MS,
      auditHeadFile: { read: async () => file.head, write: async (head) => void (file.head = head) },
    });
  const verify = (): Promise<AuditVerdict> => verifyAudit(store.read, chain, file.head);
  return { start, audit: start(), clock, errors, file, verify };
}

/** Ten sealed records of different times. */
async function sealedTen(store: Store) {
  const parts = setUp(store);
  for (let n = 1; n <= 10; n += 1) {
    await parts.audit.record(request({ requestId: `r${n}` }));
    parts.clock.ms += DAY_MS;
  }
  await parts.audit.seal();
  return parts;
}

const tampers: [what: string, tamper: (store: Store) => Promise<unknown>, position: number, problem: RegExp][] = [
  [
    'a changed outcome',
    (store) => store.write((tx) => tx.updateTable('audit').set({ outcome: 'x' }).where('position', '=', 4).execute()),
    4,
    /changed/,
  ],
  [
    'a changed time',
    (store) => store.write((tx) => tx.updateTable('audit').set({ atMs: 1 }).where('position', '=', 10).execute()),
    10,
    /changed/,
  ],
  [
    'changed subjects',
    (store) => store.write((tx) => tx.updateTable('audit').set({ subjects: '[' }).where('position', '=', 1).execute()),
    1,
    /changed/,
  ],
  [
    'a removed record',
    (store) => store.write((tx) => tx.deleteFrom('audit').where('position', '=', 6).execute()),
    6,
    /removed/,
  ],
  [
    'a removed first record',
    (store) => store.write((tx) => tx.deleteFrom('audit').where('position', '=', 1).execute()),
    1,
    /removed/,
  ],
  [
    'a removed first record, with an anchor of its own',
    (store) =>
      store.write(async (tx) => {
        const [first] = await auditAfter(tx, 0, 1);
        await tx.deleteFrom('audit').where('position', '=', 1).execute();
        await saveSetting(tx, 'auditAnchor', JSON.stringify({ position: 1, hash: first?.hash, mac: 'forged' }));
      }),
    1,
    /anchor/,
  ],
  [
    'two records in the other order',
    (store) =>
      store.write(async (tx) => {
        const move = (from: number, to: number) =>
          tx.updateTable('audit').set({ position: to }).where('position', '=', from).execute();
        await move(3, 99);
        await move(4, 3);
        await move(99, 4);
      }),
    3,
    /not the one/,
  ],
  [
    'removed records at the end',
    (store) => store.write((tx) => tx.deleteFrom('audit').where('position', '>', 7).execute()),
    8,
    /up to 10 were removed/,
  ],
  [
    'removed records at the end, with a head to match',
    (store) =>
      store.write(async (tx) => {
        await tx.deleteFrom('audit').where('position', '>', 7).execute();
        const [last] = await auditAfter(tx, 6, 1);
        await saveAuditHead(tx, { position: 7, hash: last?.hash ?? '' });
      }),
    8,
    /up to 10 were removed/,
  ],
];

onBothEngines('the audit log', { postgres: 'always' }, (open) => {
  test('stores a user agent without control characters', async () => {
    const { audit } = setUp(await open());
    await audit.record(request({ userAgent: 'a\u0085b\u009b31mc\td' }));
    await audit.seal();
    const { records } = await audit.list({}, page);
    expect(records.map(({ userAgent }) => userAgent)).toEqual(['a b 31mc d']);
  });

  test('stores records later that a failing store refused, with their own times, and verifies', async () => {
    const store = await open();
    const writes = { fail: false, asked: 0 };
    const failing: Store = {
      ...store,
      write: (work) => {
        writes.asked += 1;
        return writes.fail ? Promise.reject(new Error('no space')) : store.write(work);
      },
    };
    const { audit, clock, errors, verify } = setUp(failing);
    const at = async (ms: number, requestId: string, outcome = 'ok') => {
      clock.ms = ms;
      await audit.record(request({ requestId, outcome }));
    };
    await at(10 * DAY_MS, 'stored');
    writes.fail = true;
    await at(11 * DAY_MS, 'first');
    const asked = writes.asked;
    await at(12 * DAY_MS, 'second');
    await at(13 * DAY_MS, 'refused', 'not_found');
    // An answer waits for one failure, not for each.
    expect(writes.asked).toBe(asked);
    await expect(audit.seal()).rejects.toThrow('no space');
    expect(audit.unwritten()).toBe(3);
    const copies = errors.filter(({ text }) => text.includes('its only copy'));
    expect(copies.map(({ facts }) => facts)).toMatchObject(
      ['first', 'second'].map((requestId) => ({ record: { request: { requestId, caller: ANN } } })),
    );
    writes.fail = false;
    clock.ms = 14 * DAY_MS;
    await audit.seal();
    expect(audit.unwritten()).toBe(0);
    const rows = await auditAfter(store.read, 0, 10);
    expect(rows.map(({ requestId, atMs }) => [requestId, atMs / DAY_MS])).toEqual([
      ['stored', 10],
      ['first', 11],
      ['second', 12],
      ['refused', 13],
    ]);
    expect(await verify()).toMatchObject({ ok: true, records: 4 });
  });

  test('gives records positions in their order, and verifies', async () => {
    const store = await open();
    const { verify, audit } = await sealedTen(store);
    const rows = await auditAfter(store.read, 0, 100);
    expect(rows.map(({ position, requestId }) => `${position} ${requestId}`)).toEqual(
      Array.from({ length: 10 }, (_, n) => `${n + 1} r${n + 1}`),
    );
    expect(await verify()).toEqual({ ok: true, records: 10, first: 1, last: 10 });
    expect((await audit.list({}, page)).records[0]).toMatchObject({
      position: 10,
      accountId: 'ann',
      credential: 'login',
      credentialId: 'login-1',
      subjects: [SUBJECT],
    });
  });

  test('finds each change of the database, and names the position', async () => {
    const store = await open();
    const { verify } = await sealedTen(store);
    const rows = await auditAfter(store.read, 0, 100);
    const head = await auditHead(store.read);
    for (const [what, tamper, position, problem] of tampers) {
      await tamper(store);
      expect(await verify(), what).toEqual({ ok: false, position, problem: expect.stringMatching(problem) });
      await store.write(async (tx) => {
        await tx.deleteFrom('audit').execute();
        await tx.insertInto('audit').values(rows).execute();
        await tx.deleteFrom('setting').where('name', '=', 'auditAnchor').execute();
        await saveAuditHead(tx, head);
      });
      expect(await verify(), `after ${what}`).toMatchObject({ ok: true });
    }
  });

  test('finds records that were replaced by other sealed ones, and does not move the head on', async () => {
    const store = await open();
    const { verify, start, file, errors } = await sealedTen(store);
    await store.write(async (tx) => {
      await tx.deleteFrom('audit').where('position', '>', 7).execute();
      const [last] = await auditAfter(tx, 6, 1);
      await saveAuditHead(tx, { position: 7, hash: last?.hash ?? '' });
    });
    const again = start();
    for (let n = 0; n < 5; n += 1) await again.record(request({ requestId: 'later' }));
    await again.seal();
    expect((await auditHead(store.read)).position).toBe(12);
    expect(file.head?.position).toBe(10);
    expect(errors).toMatchObject([{ text: expect.stringMatching(/missing or replaced/) }]);
    expect(await verify()).toMatchObject({ ok: false, position: 10, problem: expect.stringMatching(/head/) });
  });

  test('seals records that waited while the server was down', async () => {
    const store = await open();
    const { audit, start, verify } = setUp(store);
    await audit.record(request());
    expect((await audit.list({}, page)).records).toEqual([]);
    await start().seal();
    expect(await verify()).toMatchObject({ ok: true, records: 1 });
  });

  test('stores the records of a turn in one transaction, and each of the next turn once', async () => {
    const store = await open();
    let writes = 0;
    const write: Store['write'] = (work) => {
      writes += 1;
      return store.write(work);
    };
    const { audit } = setUp({ ...store, write });
    for (const turn of ['a', 'b'])
      await Promise.all(Array.from({ length: 20 }, (_, n) => audit.record(request({ requestId: `${turn}${n}` }))));
    expect(writes).toBe(2);
    await audit.seal();
    const ids = ['a', 'b'].flatMap((turn) => Array.from({ length: 20 }, (_, n) => `${turn}${n}`));
    expect((await auditAfter(store.read, 0, 100)).map(({ requestId }) => requestId)).toEqual(ids);
  });

  test('numbers each of 300 concurrent records once', async () => {
    const store = await open();
    const { audit, verify } = setUp(store);
    const sealing = setInterval(() => void audit.seal().catch(() => {}), 5);
    await Promise.all(Array.from({ length: 300 }, (_, n) => audit.record(request({ requestId: `r${n}` }))));
    clearInterval(sealing);
    await audit.stop();
    await expect.poll(async () => (await audit.list({}, page)).totalEntries).toBe(300);
    expect(await verify()).toEqual({ ok: true, records: 300, first: 1, last: 300 });
  });

  test('deletes old records, and the rest still verifies from its anchor on', async () => {
    const store = await open();
    const { audit, clock, verify } = await sealedTen(store);
    clock.ms += 4 * DAY_MS;
    await audit.deleteOld();
    expect(await verify()).toEqual({ ok: true, records: 6, first: 5, last: 10 });
    expect((await audit.list({ subjectId: SUBJECT }, page)).totalEntries).toBe(6);
    clock.ms += 100 * DAY_MS;
    await audit.deleteOld();
    await audit.record(request());
    await audit.seal();
    expect(await verify()).toEqual({ ok: true, records: 1, first: 11, last: 11 });
  });

  test('filters by account, route, subject, outcome and time', async () => {
    const store = await open();
    const { audit, clock } = setUp(store);
    const atMs = clock.ms;
    await audit.record(request({ requestId: 'a', subjects: [OTHER, SUBJECT] }));
    clock.ms += 10;
    await audit.record(request({ requestId: 'b', route: 'start', outcome: 'not_found' }));
    await audit.record(request({ requestId: 'c', caller: { ...ANN, accountId: 'bob' }, subjects: ['no id'] }));
    await audit.seal();
    const found = async (filter: Parameters<typeof audit.list>[0]): Promise<string> =>
      (await audit.list(filter, page)).records.map(({ requestId }) => requestId).join('');
    expect(await found({})).toBe('cba');
    expect(await found({ accountId: 'ann' })).toBe('ba');
    expect(await found({ route: 'start' })).toBe('b');
    expect(await found({ outcome: 'ok' })).toBe('ca');
    expect(await found({ subjectId: OTHER })).toBe('a');
    expect(await found({ fromMs: atMs + 10 })).toBe('cb');
    expect(await found({ toMs: atMs + 10, accountId: 'ann' })).toBe('a');
    const second = await audit.list({}, { currentPage: 2, pageSize: 2 });
    expect(second).toMatchObject({ totalEntries: 3, records: [{ requestId: 'a' }] });
  });

  test('summarizes a flood of refusals by account, and by name and address', async () => {
    const store = await open();
    const { audit, clock } = setUp(store);
    const flood = (count: number, more: Partial<AuditedRequest>) =>
      Promise.all(Array.from({ length: count }, () => audit.record(request({ outcome: 'not_found', ...more }))));
    await flood(1_000, {});
    await flood(25, { caller: { ...ANN, accountId: 'bob' } });
    const login = { caller: null, route: 'login', outcome: 'not_logged_in', subjects: [] };
    await flood(30, { ...login, loginName: 'ann', address: '2001:db8::1' });
    await flood(30, { ...login, loginName: 'ann', address: '2001:db8::2' });
    await flood(5, { ...login, loginName: 'ann', address: '2001:db8:1::2' });
    clock.ms += MINUTE_MS;
    await audit.seal();
    const of = async (filter: Parameters<typeof audit.list>[0]): Promise<number[]> =>
      (await audit.list(filter, page)).records.map(({ count }) => count).toSorted((one, other) => other - one);
    const tenAnd = (count: number) => [count, ...Array<number>(10).fill(1)];
    expect(await of({ accountId: 'ann' })).toEqual(tenAnd(990));
    expect(await of({ accountId: 'bob' })).toEqual(tenAnd(15));
    expect(await of({ route: 'login' })).toEqual([50, ...Array<number>(15).fill(1)]);
  });

  test('on a full disk stores what was done, and few records of what was refused', async () => {
    const store = await open();
    const { start, clock } = setUp(store);
    const audit = start({ isFull: () => true });
    await audit.record(request({ requestId: 'done' }));
    for (let n = 0; n < 50; n += 1) {
      const caller = { ...ANN, accountId: `account ${n}` };
      await audit.record(request({ route: 'login', outcome: 'not_logged_in', caller }));
      await audit.record(request({ route: 'launch', outcome: 'storage_full', caller }));
    }
    clock.ms += MINUTE_MS;
    await audit.seal();
    const { records } = await audit.list({}, { currentPage: 1, pageSize: 100 });
    const of = (route: string) => records.filter((record) => record.route === route).map(({ count }) => count);
    expect(records.filter(({ requestId }) => requestId === 'done')).toHaveLength(1);
    expect(of('login').toSorted((one, other) => other - one)).toEqual([40, ...Array<number>(10).fill(1)]);
    expect(of('launch')).toEqual([]);
  });

  test('bounds the records of a flood from ever new names, and stores no unknown name', async () => {
    const store = await open();
    const { audit } = setUp(store);
    const unknown = { caller: null, route: 'login', outcome: 'not_logged_in', subjects: [] };
    await Promise.all(
      Array.from({ length: 1_500 }, (_, n) => audit.record(request({ ...unknown, loginName: `my password ${n}` }))),
    );
    await audit.stop();
    const { totalEntries } = await audit.list({}, page);
    expect(totalEntries).toBe(1_011);
    const rows = await auditAfter(store.read, 0, 2_000);
    expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(1_500);
    expect(JSON.stringify(rows)).not.toContain('my password');
  });
});
