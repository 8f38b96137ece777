/** Identities of login providers, as administrators change them. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { startApi, startEdge, type TestApi } from './harness.ts';
import { makeProviderOf } from './sign-on-fixture.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const signOn = async (issuer: string, subject: string, username: string): Promise<string> => {
  const identity = { issuer, subject, sid: null, username, email: '', role: null };
  const { accessToken } = await api.wired.control.access.signOn(identity, { linksByEmail: false }, '192.0.2.1');
  return (await api.wired.control.access.authenticate({ kind: 'token', token: accessToken })).accountId;
};

test('lists the identities of an account, links one, and takes it away with its logins', async () => {
  const { client } = api.admin;
  const issuer = 'https://link.example';
  const anna = await api.newAccount();
  const { userId: accountId } = await anna.client.userInfo();
  expect(await client.listIdentities({ accountId })).toEqual({ identities: [] });
  const linked = await client.linkIdentity({ accountId, issuer, subject: 'anna' });
  expect(linked.identities).toEqual([{ issuer, subject: 'anna', createdAtUnixMs: expect.any(Number) }]);
  expect(await client.linkIdentity({ accountId, issuer, subject: 'anna' })).toEqual(linked);
  expect(await signOn(issuer, 'anna', 'else')).toBe(accountId);

  const other = await signOn(issuer, 'bert', 'bert-of-link');
  await expect(client.linkIdentity({ accountId, issuer, subject: 'bert' })).rejects.toMatchObject({
    code: 'name_taken',
    message: expect.stringContaining(`opens the account bert-of-link (${other})`),
  });
  await anna.client.userInfo();
  expect(await client.unlinkIdentity({ accountId, issuer, subject: 'anna' })).toEqual({ identities: [] });
  await expect(anna.client.userInfo()).rejects.toMatchObject({ code: 'not_logged_in' });
  await expect(client.unlinkIdentity({ accountId, issuer, subject: 'anna' })).rejects.toMatchObject({
    code: 'not_found',
  });
  expect(await signOn(issuer, 'anna', 'anna-again')).not.toBe(accountId);
});

test('moves the identities of an issuer that has another name, but none that the new one has', async () => {
  const { client } = api.admin;
  const [from, to] = ['https://old.example', 'https://new.example'];
  const [one, two] = [await signOn(from, 'one', 'move-one'), await signOn(from, 'two', 'move-two')];
  const known = await signOn(to, 'two', 'move-known');
  expect(await client.moveIdentities({ fromIssuer: from, toIssuer: to })).toEqual({ moved: 1, skipped: 1 });
  expect(await signOn(to, 'one', 'x')).toBe(one);
  expect(await signOn(to, 'two', 'x')).toBe(known);
  expect(await signOn(from, 'two', 'x')).toBe(two);
});

test.each([
  'not a url',
  '',
  'htps://login.example',
  'http://login.example',
  'https://login.example/?a',
  'https://a.example/b c',
])('links no identity of the issuer %j, and moves none to it', async (issuer) => {
  const { userId: accountId } = await (await api.newAccount()).client.userInfo();
  const { client } = api.admin;
  const why = { message: expect.stringContaining('must be an https URL without a query') };
  await expect(client.linkIdentity({ accountId, issuer, subject: 'a' })).rejects.toMatchObject(why);
  await expect(client.moveIdentities({ fromIssuer: 'https://a.example', toIssuer: issuer })).rejects.toMatchObject(why);
});

test('links subjects to the letter, an empty one to no account, and takes back what earlier versions linked', async () => {
  const { client } = api.admin;
  const { userId: accountId } = await (await api.newAccount()).client.userInfo();
  const issuer = 'https://letter.example';
  await expect(client.linkIdentity({ accountId, issuer, subject: '' })).rejects.toThrow(/must not be empty/);
  await client.linkIdentity({ accountId, issuer, subject: ' a ' });
  expect(await signOn(issuer, ' a ', 'letter')).toBe(accountId);
  const old = { accountId, issuer: 'not a url', subject: '' };
  await api.wired.store.write((tx) =>
    tx
      .insertInto('identity')
      .values({ ...old, createdAtMs: 1 })
      .execute(),
  );
  expect((await client.unlinkIdentity(old)).identities).toMatchObject([{ issuer, subject: ' a ' }]);
});

test('moves identities to the login provider of the server alone', async () => {
  const { loginProvider } = makeProviderOf({ issuer: 'https://here.example' });
  const edge = await startEdge(api.wired.control, { loginProvider });
  onTestFinished(() => edge.stop());
  const client = makeClient({ baseUrl: edge.baseUrl, credential: { kind: 'token', token: api.admin.token } });
  const fromIssuer = 'https://there.example';
  await expect(client.moveIdentities({ fromIssuer, toIssuer: 'https://here.example/' })).rejects.toMatchObject({
    code: 'field_value',
    message: expect.stringMatching(/must be "https:\/\/here.example", the login provider of this server/),
  });
  expect(await client.moveIdentities({ fromIssuer, toIssuer: 'https://here.example' })).toMatchObject({ moved: 0 });
});

test('shows and changes identities for administrators alone', async () => {
  const { client } = await api.newAccount();
  const { userId: accountId } = await client.userInfo();
  const identity = { accountId, issuer: 'https://link.example', subject: 'mallory' };
  const moved = { fromIssuer: 'https://a.example', toIssuer: 'https://b.example' };
  for (const tried of [
    client.listIdentities({ accountId }),
    client.linkIdentity(identity),
    client.unlinkIdentity(identity),
    client.moveIdentities(moved),
  ])
    await expect(tried).rejects.toMatchObject({ code: 'forbidden' });
});
