/** The page of an invitation or a reset, and attacks on it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ACCESS_COOKIE } from '../../../src/contract/routes.ts';
import { startApi, type Reply, type TestApi } from './harness.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const invited = async (username: string): Promise<string> => {
  const { url } = await api.admin.client.inviteAccount({ username });
  expect(url).toMatch(/\/password\?token=[\w-]{43}$/);
  return new URL(url).searchParams.get('token') ?? '';
};
const submit = (fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Reply> =>
  api.send('/password', {
    method: 'POST',
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', origin: api.origin, ...headers },
  });
const logIn = (username: string, password: string) => api.post('/user/login', { username, password });
const NEW = 'seven green bottles';

test('sets the password of an invited account, and logs nobody in by itself', async () => {
  const token = await invited('dora');
  for (const _ of [1, 2]) {
    const shown = await api.send(`/password?token=${token}`);
    expect(shown).toMatchObject({ status: 200, headers: { 'content-type': 'text/html; charset=utf-8' } });
    expect(shown.headers['content-security-policy']).toMatch(/^default-src 'none';.*frame-ancestors 'none'$/);
    expect(shown.headers['cache-control']).toBe('no-store');
    expect(shown.text).toContain('For the account dora.');
    expect(shown.text).not.toContain('<script');
  }
  const done = await submit({ token, password: NEW, repeated: NEW });
  expect(done.status).toBe(200);
  expect(done.text).toContain('Log in with the name dora.');
  expect(done.headers['set-cookie']).toBeUndefined();
  expect(await logIn('dora', NEW)).toMatchObject({ status: 200 });
  const again = await submit({ token, password: NEW, repeated: NEW });
  expect(again).toMatchObject({ status: 404, headers: { 'x-error-code': 'not_found' } });
  expect(again.text).toContain('ask an administrator for another');
});

test('says what is wrong with a password, and keeps the link', async () => {
  const token = await invited('emil');
  for (const [password, repeated, why] of [
    [NEW, `${NEW}s`, 'the two passwords differ'],
    ['short', 'short', 'must have 8 to 1024 characters'],
    ['password123', 'password123', 'newPassword'],
  ] as const) {
    const refused = await submit({ token, password, repeated });
    expect(refused.status).toBe(400);
    expect(refused.text.toLowerCase()).toContain(why.toLowerCase());
    expect(refused.text).toContain(`value="${token}"`);
    expect(refused.text).not.toContain(password === NEW ? NEW : `value="${password}"`);
  }
  expect(await submit({ token, password: NEW, repeated: NEW })).toMatchObject({ status: 200 });
});

test('opens by no other token, and no page of another origin sends the form', async () => {
  const token = await invited('fritz');
  for (const wrong of ['', 'x', token.slice(1), `${token}A`, token.toLowerCase(), "' or 1=1 --"])
    expect(await api.send(`/password?token=${encodeURIComponent(wrong)}`)).toMatchObject({ status: 404 });
  expect(await api.send('/password')).toMatchObject({ status: 404 });
  for (const origin of ['https://evil.test', 'null'])
    expect(await submit({ token, password: NEW, repeated: NEW }, { origin })).toMatchObject({ status: 403 });
  const json = await api.send('/password', { method: 'POST', body: { token, password: NEW, repeated: NEW } });
  expect(json).toMatchObject({ status: 400 });
  expect(await api.send('/password', { method: 'PUT' })).toMatchObject({ status: 405 });
  expect(await logIn('fritz', NEW)).toMatchObject({ status: 401 });
});

test('only administrators administer accounts', async () => {
  const anna = await api.newAccount();
  const { accounts } = await api.admin.client.listAccounts({
    pager: { currentPage: 1, pageSize: 1 },
    search: anna.username,
  });
  const accountId = accounts[0]?.accountId ?? '';
  await api.admin.client.setAccountRole({ accountId, role: 'operator' });
  const body = { accountId, role: 'admin', username: 'x', pager: { currentPage: 1, pageSize: 1 } };
  for (const route of ['list', 'get', 'invite', 'resetPassword', 'disable', 'enable', 'role']) {
    const refused = await api.post(`/admin/account/${route}`, body, { token: anna.token });
    expect(refused).toMatchObject({ status: 403, headers: { 'x-error-code': 'forbidden' } });
    const nobody = await api.post(`/admin/account/${route}`, body, { headers: { cookie: `${ACCESS_COOKIE}=x` } });
    expect(nobody.status).toBe(401);
  }
  const { account, holdings } = await api.admin.client.getAccount({ accountId });
  expect(account).toMatchObject({ username: anna.username, role: 'operator', state: 'active' });
  expect(holdings.counts).toEqual({ instances: 0, volumes: 0, volumeGB: 0, snapshots: 0, images: 0 });
});
