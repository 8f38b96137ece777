/**
 * The stranger table: every route of the route table, tried with every credential that must not do.
 * The rightful caller's answer to the same request shows that the credential alone is refused. The
 * column "other account" is in `two-accounts.test.ts`. Rows that cannot be tried are listed in
 * `test/expected/uncovered-routes.txt`, which is empty.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { jsonRouteNames, jsonRouteOf, routeNames, routeOf, type RouteName } from '../../../src/contract/routes.ts';
import type { Caller, Control } from '../../../src/control/index.ts';
import { roles } from '../../../src/domain/access/roles.ts';
import { scopes, scopesFor, type Scope } from '../../../src/domain/access/scopes.ts';
import { openSigningKey } from '../../fixtures/test-seal.ts';
import { startApi, startEdge, type BareApi, type TestApi } from '../api/harness.ts';
import { exampleRequest, sendRoute, type ReceivedHead } from './route-requests.ts';

const uncoveredFile = new URL('../../expected/uncovered-routes.txt', import.meta.url);

let api: TestApi;
/** The same control, which also accepts callers made by the tests. */
let edge: BareApi;
const made = new Map<string, Caller>();

beforeAll(async () => {
  api = await startApi();
  const { access } = api.wired.control;
  const control: Control = {
    ...api.wired.control,
    access: {
      ...access,
      authenticate: async (credential, options) =>
        (credential.kind === 'token' ? made.get(credential.token) : undefined) ??
        access.authenticate(credential, options),
    },
  };
  edge = await startEdge(control);
});
afterAll(async () => {
  await edge.stop();
  await api.stop();
});

/** Caller of an account of its own: its requests may end its logins. */
async function newCaller(): Promise<Caller> {
  const { token } = await api.newAccount();
  return api.wired.control.access.authenticate({ kind: 'token', token });
}

/** A token of the edge for this caller. */
function tokenFor(caller: Caller): string {
  const token = `made-${made.size}`;
  made.set(token, caller);
  return token;
}

const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
const ask = (name: RouteName, credential: Record<string, string>): Promise<ReceivedHead> =>
  sendRoute(edge.port, exampleRequest(name), credential);

const closedNames = routeNames.filter((name) => routeOf(name).who !== 'anyone');

/** Lines for answers that are not the refusal. */
async function notRefused(
  names: readonly RouteName[],
  credentials: Record<string, Record<string, string>>,
  isRefusal: (head: ReceivedHead, name: RouteName) => boolean,
): Promise<string[]> {
  const wrong: string[] = [];
  for (const name of names)
    for (const [what, credential] of Object.entries(credentials)) {
      const head = await ask(name, credential);
      if (!isRefusal(head, name)) wrong.push(`${name}, ${what}: ${JSON.stringify(head)}`);
    }
  return wrong;
}

const isNotLoggedIn = ({ status, code }: ReceivedHead): boolean => status === 401 && code === 'not_logged_in';

test('only the listed routes are open to everybody', async () => {
  const open = routeNames.filter((name) => routeOf(name).who === 'anyone');
  await expect(`${open.join('\n')}\n`).toMatchFileSnapshot('../../expected/open-routes.txt');
});

test('every route takes its valid example from an administrator; the list of exceptions is empty', async () => {
  const uncovered: string[] = [];
  const token = tokenFor({ ...(await newCaller()), roles: ['admin'] });
  for (const name of closedNames) {
    const { status, code, message } = await ask(name, bearer(token));
    const isInvalid = status === 400 && /^(field_|body_)/.test(code ?? '');
    if (status >= 500 || status === 405 || isInvalid || lacksRight(message))
      uncovered.push(`${name}: ${status} ${message}`);
  }
  expect(uncovered.join('\n')).toBe(await readFile(uncoveredFile, 'utf8'));
});

test('every route refuses nobody, expired and forged tokens', async () => {
  const [headerText = '', claimsText = '', signature = ''] = api.admin.token.split('.');
  const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  const decode = (part: string): Record<string, unknown> => JSON.parse(Buffer.from(part, 'base64url').toString());
  const signed = (header: object, claims: object, key: Parameters<typeof sign>[2]): string => {
    const text = `${encode(header)}.${encode(claims)}`;
    return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`;
  };
  const [header, claims] = [decode(headerText), decode(claimsText)];
  const own = { key: JSON.parse(openSigningKey(await api.wired.signingKey())), format: 'jwk' as const };
  const foreign = generateKeyPairSync('ed25519').privateKey;
  const nowS = Math.floor(Date.now() / 1000);
  // Right in everything else.
  expect(await ask('userInfo', bearer(signed(header, claims, own)))).toMatchObject({ status: 200 });
  const credentials = {
    nobody: {},
    'nobody, with an empty cookie': { cookie: 'AccessToken=' },
    expired: bearer(signed(header, { ...claims, iat: nowS - 86_401, exp: nowS - 1 }, own)),
    'expired, as a cookie': {
      cookie: `AccessToken=${signed(header, { ...claims, iat: nowS - 86_401, exp: nowS - 1 }, own)}`,
    },
    'forged by another key': bearer(signed(header, claims, foreign)),
    'forged without a signature': bearer(`${encode({ ...header, alg: 'none' })}.${claimsText}.`),
    'forged claims': bearer(`${headerText}.${encode({ ...claims, group: ['admin'], sub: 'x' })}.${signature}`),
    'forged API key': { 'x-api-key': `berth_${'A'.repeat(43)}` },
  };
  expect(await notRefused(closedNames, credentials, isNotLoggedIn)).toEqual([]);
});

test('every route refuses a revoked login and a deleted key', async () => {
  const user = await api.newAccount();
  const { key } = await user.client.createApiKey({ name: 'gone' });
  const credentials = { login: bearer(user.token), key: { 'x-api-key': key.fullKey } };
  for (const credential of Object.values(credentials))
    expect(await ask('userInfo', credential)).toMatchObject({ status: 200 });
  await user.client.deleteApiKey({ id: key.id });
  await user.client.logout({});
  expect(await notRefused(closedNames, credentials, isNotLoggedIn)).toEqual([]);
});

test('every route refuses login and key of a disabled account', async () => {
  const user = await api.newAccount();
  const { key } = await user.client.createApiKey({ name: 'disabled' });
  const credentials = { login: bearer(user.token), key: { 'x-api-key': key.fullKey } };
  for (const credential of Object.values(credentials))
    expect(await ask('userInfo', credential)).toMatchObject({ status: 200 });
  await api.wired.store.write((tx) =>
    tx.updateTable('account').set({ disabled: 1 }).where('username', '=', user.username).execute(),
  );
  for (const credential of Object.values(credentials))
    await expect.poll(() => ask('userInfo', credential), { timeout: 60_000 }).toMatchObject({ status: 401 });
  expect(await notRefused(closedNames, credentials, isNotLoggedIn)).toEqual([]);
});

test('every route refuses keys without its scopes, and takes keys with one of them', async () => {
  const wrong: string[] = [];
  const administrator: Caller = { ...(await newCaller()), roles: ['admin'] };
  const withScopes = (held: readonly Scope[]) => bearer(tokenFor({ ...administrator, scopes: held }));
  for (const name of closedNames) {
    const needed = scopesFor(routeOf(name));
    const others = withScopes(scopes.filter((one) => !needed.includes(one)));
    wrong.push(...(await notRefused([name], { 'all other scopes': others, 'no scope': withScopes([]) }, lacksScope)));
    for (const scope of needed) {
      const head = await ask(name, withScopes([scope]));
      if (lacksRight(head.message)) wrong.push(`${name}, scope ${scope}: ${head.message}`);
    }
  }
  expect(wrong).toEqual([]);
});

test('every route with a lasting effect needs its scope and a key without end or addresses', async () => {
  const lasting = jsonRouteNames.filter((name) => jsonRouteOf(name).lasting !== null);
  await expect(`${lasting.join('\n')}\n`).toMatchFileSnapshot('../../expected/lasting-routes.txt');
  const wrong: string[] = [];
  const administrator: Caller = { ...(await newCaller()), roles: ['admin'], apiKeyId: 'key' };
  const key = (more: Partial<Caller>) => bearer(tokenFor({ ...administrator, ...more }));
  const limited = {
    'a key with an end': key({ limits: { expiresAtMs: 4_102_444_800_000, addresses: null } }),
    'a key with addresses': key({ limits: { expiresAtMs: null, addresses: ['0.0.0.0/0', '::/0'] } }),
  };
  for (const name of jsonRouteNames.filter((one) => routeOf(one).who !== 'anyone')) {
    const { lasting: effect, subject } = jsonRouteOf(name);
    const isRefused = (head: ReceivedHead): boolean =>
      head.status === 403 && head.code === 'forbidden' && head.message.includes('until somebody undoes it');
    if (effect === null) wrong.push(...(await notRefused([name], limited, (head) => !isRefused(head))));
    else {
      const others = key({ scopes: scopes.filter((one) => one !== effect.scope || one === subject) });
      const credentials = effect.scope === subject ? limited : { ...limited, 'a key without the scope': others };
      wrong.push(...(await notRefused([name], credentials, isRefused)));
      wrong.push(...(await notRefused([name], { 'a key': key({}) }, (head) => !isRefused(head))));
    }
  }
  expect(wrong).toEqual([]);
});

test('a key with limits widens no webhook: it changes none, and may delete one', async () => {
  const { client } = await api.newAccount();
  const { webhook } = await client.createWebhook({ url: 'https://hooks.example.net/a' });
  const { key } = await client.createApiKey({ name: 'limited', addresses: ['127.0.0.1'] });
  await client.updateWebhook({ id: webhook.id, kinds: ['instance.launched'], enabled: false });
  const ask = async (name: string, change: object): Promise<number> =>
    (await api.post(`/webhook/${name}`, { id: webhook.id, ...change }, { headers: { 'x-api-key': key.fullKey } }))
      .status;
  for (const change of [
    { url: 'https://hooks.example.net/b' },
    { kinds: [] },
    { enabled: true },
    { kinds: ['sshKey'] },
  ])
    expect(await ask('update', change)).toBe(403);
  expect((await client.listWebhooks()).webhooks).toMatchObject([
    { url: 'https://hooks.example.net/a', kinds: ['instance.launched'], enabled: false },
  ]);
  expect(await ask('delete', {})).toBe(200);
});

const lacksRight = (message: string): boolean => /lacks the scope|only accounts of the group/.test(message);
const lacksScope = ({ status, code, message }: ReceivedHead, name: RouteName): boolean =>
  status === 403 && code === 'forbidden' && (routeOf(name).method === 'HEAD' || message.includes('lacks the scope'));

test('every route for operators and administrators refuses lower roles', async () => {
  const user = await newCaller();
  const wrong: string[] = [];
  let tried = 0;
  for (const name of closedNames) {
    const { who } = routeOf(name);
    if (who === 'account' || who === 'anyone') continue;
    for (const role of roles.slice(0, roles.indexOf(who))) {
      tried += 1;
      const head = await ask(name, bearer(tokenFor({ ...user, roles: [role] })));
      if (head.status !== 403 || !head.message.includes(`only accounts of the group`))
        wrong.push(`${name}, ${role}: ${JSON.stringify(head)}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(tried).toBeGreaterThan(8);
});
