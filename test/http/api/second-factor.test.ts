/** A login with a second factor by the routes and by the login page. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { codeAt } from '../../db/control/totp-fixture.ts';
import { launchRequest, startApi, type Account, type Reply, type TestApi } from './harness.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const HEADER = 'x-berth-second-factor';
const WRONG = 'The username (or email) or the password is wrong. Check both and log in again.';
const STEP_MS = 30_000;

/** A new account with an app, whose code of the present step is used. */
async function withApp(): Promise<Account & { secret: string; recoveryCodes: string[] }> {
  const account = await api.newAccount();
  const { client, password } = account;
  const { secret } = await client.createTotp({ password });
  const { recoveryCodes } = await client.confirmTotp({ code: codeAt(secret, Date.now()) });
  return { ...account, secret, recoveryCodes };
}

const nextCode = ({ secret }: { secret: string }): string => codeAt(secret, Date.now() + STEP_MS);

const logIn = ({ username, password }: Account, more: object = {}): Promise<Reply> =>
  api.post('/user/login', { username, password, ...more });

/** Posts the form as a browser on the page does. */
const submit = (fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Reply> =>
  api.send('/login', {
    method: 'POST',
    body: new URLSearchParams({ to: '/instances', host: '', ...fields }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', origin: api.origin, ...headers },
  });

const pendingIn = ({ text }: Reply): string => /name="pending" value="([^"]+)"/.exec(text)?.[1] ?? '';

test('a login without the code is 401 with the documented words, and a hint after the right password', async () => {
  const account = await withApp();
  const refused = { status: 401, text: JSON.stringify({ message: WRONG }) };
  const missing = await logIn(account);
  expect(missing).toMatchObject({ ...refused, headers: { [HEADER]: 'code', 'x-error-code': 'not_logged_in' } });
  expect(missing.headers['set-cookie']).toBeUndefined();
  expect(await logIn(account, { code: '000000' })).toMatchObject({ ...refused, headers: { [HEADER]: 'code' } });
  const wrong = await logIn({ ...account, password: 'wrong' }, { code: nextCode(account) });
  expect(wrong).toMatchObject(refused);
  expect(wrong.headers).not.toHaveProperty(HEADER);
  const right = await logIn(account, { code: nextCode(account) });
  expect(right).toMatchObject({ status: 200, json: { accessExpire: 86_400 } });
  expect(right.headers['set-cookie']?.[0]).toMatch(/^AccessToken=/);
});

test('an account without a second factor logs in as before, whatever "code" says', async () => {
  const account = await api.newAccount();
  for (const more of [{}, { code: '123456' }, { code: null }]) {
    const reply = await logIn(account, more);
    expect(reply.status).toBe(200);
    expect(reply.headers).not.toHaveProperty('x-ignored-fields');
  }
});

test('the login page asks for the code after the password, and leads on with it', async () => {
  const account = await withApp();
  const { username, password } = account;
  const asked = await submit({ username, password });
  expect(asked).toMatchObject({ status: 401, headers: { [HEADER]: 'code' } });
  expect(asked.text).toContain('autocomplete="one-time-code"');
  expect(asked.text).not.toContain('role="alert"');
  for (const secret of [password, 'name="password"']) expect(asked.text).not.toContain(secret);
  const again = await submit({ pending: pendingIn(asked), code: '000000' });
  expect(again.status).toBe(401);
  expect(again.text).toMatch(/role="alert">The code is wrong/);
  expect(again.headers['set-cookie']).toBeUndefined();
  const led = await submit({ pending: pendingIn(again), code: ` ${account.recoveryCodes[0]}` });
  expect(led).toMatchObject({ status: 303, headers: { location: '/instances' } });
  expect(led.headers['set-cookie']?.[0]).toMatch(/^AccessToken=/);
});

test('the login page speaks Chinese, and leads to a notebook as without a code', async () => {
  const account = await withApp();
  const { username, password } = account;
  const { instanceId } = await account.client.launch(launchRequest());
  const to = `/notebook/${instanceId}/lab`;
  const asked = await submit({ to, username, password }, { 'accept-language': 'zh-CN' });
  expect(asked.text).toContain('双重验证');
  const opened = await submit({ to, pending: pendingIn(asked), code: nextCode(account) });
  expect(opened).toMatchObject({ status: 200 });
  expect(opened.text).toContain('http-equiv="refresh"');
});

test('a pending login of another server or by hand is refused', async () => {
  const { username } = await withApp();
  const forged = Buffer.from(JSON.stringify({ username, password: 'x', expiresAtMs: 1e15 })).toString('base64url');
  for (const pending of ['', 'v1.', `v1.${forged}`, forged]) {
    const reply = await submit({ pending, code: '123456' });
    expect(reply.status).toBe(401);
    expect(reply.text).toContain('The login took longer than 5 minutes');
  }
});

test('each change is in the audit log with the account, and without a code', async () => {
  const account = await withApp();
  const { userId } = await account.client.userInfo();
  const [code = ''] = account.recoveryCodes;
  await account.client.deleteTotp({ password: account.password, code });
  await api.admin.client.resetSecondFactor({ accountId: userId });
  const records = (await api.wired.audited()).filter(({ accountId, subjects }) =>
    [accountId, subjects].some((text) => text.includes(userId)),
  );
  const routes = records.map(({ route }) => route);
  for (const name of ['createTotp', 'confirmTotp', 'deleteTotp', 'resetSecondFactor']) expect(routes).toContain(name);
  for (const hidden of [code, account.secret]) expect(JSON.stringify(records)).not.toContain(hidden);
});

test('passkeys begin at a host name of the console over https or at localhost, and nowhere else', async () => {
  const account = await api.newAccount();
  const { port } = api;
  const begin = (host: string, origin: string): Promise<Reply> =>
    api.post('/user/login/passkey/begin', {}, { headers: { host, origin } });
  const local = await begin(`localhost:${port}`, `http://localhost:${port}`);
  expect(local).toMatchObject({ status: 200, json: { rpId: 'localhost' } });
  for (const [host, origin, status] of [
    [`127.0.0.1:${port}`, `http://127.0.0.1:${port}`, 400],
    ['x', 'http://x', 400],
    [`localhost:${port}`, 'http://localhost:1', 403],
    [`localhost:${port}`, 'https://other.example', 403],
  ] as const)
    expect((await begin(host, origin)).status).toBe(status);
  const added = await api.post(
    '/user/secondFactor/passkey/begin',
    { password: account.password },
    { token: account.token, headers: { host: 'x', origin: 'http://x' } },
  );
  expect(added).toMatchObject({ status: 400, headers: { 'x-error-code': 'unsupported' } });
});
