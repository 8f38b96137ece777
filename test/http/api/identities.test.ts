/** Identities of login providers, as administrators change them. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type TestApi } from './harness.ts';

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
