/** Money of accounts over HTTP: roles, members, bounds, and the audit log. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type TestApi } from './harness.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const pager = { currentPage: 1, pageSize: 10 };
const post = (path: string, body: unknown) => api.post(path, body, { token: api.admin.token });
const CREDIT = '/admin/account/credit';

test('an administrator gives, takes back and allows an overdraft; the owner reads it', async () => {
  const { username, client } = await api.newAccount();
  const expiresAt = Date.now() + 86_400_000;
  const given = await api.admin.client.creditAccount({
    username,
    amount: 20.5,
    kind: 'voucher',
    expiresAt,
    scope: { meter: 'compute' },
    reason: 'conference',
  });
  expect(given).toEqual({
    entry: {
      entryId: expect.any(String),
      atUnixMs: expect.any(Number),
      kind: 'grant',
      amount: 20.5,
      account: 'voucher',
      grantId: given.grantId,
      reversesId: null,
      reason: 'conference',
    },
    grantId: expect.any(String),
  });
  expect(await client.listGrants({ pager })).toEqual({
    grants: [
      {
        grantId: given.grantId,
        kind: 'voucher',
        amount: 20.5,
        left: 20.5,
        scope: { regionId: null, instanceTypeId: null, meter: 'compute' },
        expiresAtUnixMs: expiresAt,
        createdAtUnixMs: given.entry.atUnixMs,
        reason: 'conference',
      },
    ],
    pager: { ...pager, totalEntries: 1 },
  });
  const { account } = await api.admin.client.setOverdraft({ username, overdraft: 3 });
  expect(account).toMatchObject({ username, overdraft: 3, vouchers: 20.5, credits: 0 });
  const balance = await client.balance({});
  expect(balance).toMatchObject({ availableVoucherAmount: 20.5, availableBalance: balance.balance + 3 });
  const { entry } = await api.admin.client.reverseCredit({ entryId: given.entry.entryId, reason: 'no-show' });
  expect(entry).toMatchObject({ kind: 'reversal', amount: -20.5, reversesId: given.entry.entryId });
  expect(await client.balance({})).toMatchObject({ availableVoucherAmount: 0 });
});

test('users neither give nor take back', async () => {
  const { username, token } = await api.newAccount();
  const body = { username, amount: 1, kind: 'cash', reason: 'mine' };
  expect(await api.post(CREDIT, body, { token })).toMatchObject({ status: 403 });
  const overdraft = { username, overdraft: 5 };
  expect(await api.post('/admin/account/overdraft', overdraft, { token })).toMatchObject({ status: 403 });
});

test.each([
  [{ amount: 0 }, 400, /"amount".*more than 0/],
  [{ amount: -1 }, 400, /"amount"/],
  [{ amount: 0.0000001 }, 400, /"amount".*at most 6 decimals/],
  [{ amount: 1.0000005 }, 400, /"amount".*at most 6 decimals/],
  [{ amount: 1_000_000_001 }, 400, /"amount"/],
  [{ amount: '5' }, 400, /type mismatch.*"amount"/],
  [{ amount: null }, 400, /"amount"/],
  [{ amount: undefined }, 400, /"amount" is not set/],
  [{ kind: 'gift' }, 400, /"kind"/],
  [{ kind: 'voucher', expiresAt: 0 }, 400, /"expiresAt".*past/],
  [{ kind: 'voucher', expiresAt: 1.5 }, 400, /"expiresAt"/],
  [{ kind: 'voucher', expiresAt: 1e300 }, 400, /"expiresAt"/],
  [{ expiresAt: 32_503_680_000_000 }, 400, /"expiresAt".*leave it out/],
  [{ kind: 'voucher', scope: { meter: 'fuel' } }, 400, /"scope.meter"/],
  [{ kind: 'voucher', scope: { region: 'x' } }, 400, /region/],
  [{ kind: 'credit', scope: {} }, 400, /"scope".*only vouchers/],
  [{ reason: '' }, 400, /"reason"/],
  [{ reason: undefined }, 400, /"reason" is not set/],
  [{ username: 'nobody' }, 404, /"nobody" not found/],
  [{ username: '' }, 404, /not found/],
])('refuses a credit with %j', async (change, status, words) => {
  const body = { username: 'admin', amount: 1, kind: 'cash', reason: 'test', ...change };
  const reply = await post(CREDIT, body);
  expect(reply).toMatchObject({ status, json: { message: expect.stringMatching(words) } });
});

test.each(['NaN', 'Infinity', '1e400', '-1e400'])('refuses the amount %s', async (amount) => {
  const reply = await post(CREDIT, `{"username":"admin","amount":${amount},"kind":"cash","reason":"x"}`);
  expect(reply.status).toBe(400);
});

test.each([
  ['/admin/account/overdraft', { username: 'admin', overdraft: -1 }, 400],
  ['/admin/account/overdraft', { username: 'admin', overdraft: 0.0000001 }, 400],
  ['/admin/account/overdraft', { username: 'admin', overdraft: 2e9 }, 400],
  ['/admin/account/overdraft', { username: 'nobody', overdraft: 1 }, 404],
  ['/user/create', { username: 'fraction', password: 'correct horse 77', balance: 0.0000001 }, 400],
  ['/billing/entries', { pager: { currentPage: 1, pageSize: 1 }, kind: 'charges' }, 400],
  ['/admin/account/credit/reverse', { entryId: '123456789', reason: 'x' }, 404],
  ['/admin/account/credit/reverse', { entryId: 5, reason: 'x' }, 400],
  ['/admin/account/credit/reverse', { entryId: '1' }, 400],
])('refuses %s %j', async (path, body, status) => {
  expect(await post(path, body)).toMatchObject({ status });
});
