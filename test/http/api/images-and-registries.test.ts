/**
 * An account's images and registry credentials over HTTP: refusals, and secrets that never come out
 * again.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TestApi } from './harness.ts';
import { startApi, launchRequest } from './harness.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const pager = { currentPage: 1, pageSize: 100 };
const SECRET = 'the tide is out';
const registry = { server: 'registry.example.org', username: 'ada', secret: SECRET };

test('creates, lists and deletes registry credentials; the secret is in no answer and no log line', async () => {
  const { client, token } = await api.newAccount();
  const made = await api.post('/registry/create', registry, { token });
  expect(made.json).toEqual({ registry: { id: expect.any(String), server: registry.server, username: 'ada' } });
  const listed = await api.post('/registry/list', {}, { token });
  const twin = await api.post('/registry/create', registry, { token });
  expect(twin).toMatchObject({ status: 409, headers: { 'x-error-code': 'name_taken' } });
  const { registries } = await client.listRegistries();
  expect(registries).toMatchObject([{ server: registry.server, username: 'ada' }]);
  const wrong = await Promise.all(
    [
      { ...registry, server: 'https://registry.example.org' },
      { ...registry, server: 'berth.local' },
      { ...registry, secret: '' },
      { ...registry, secret: [SECRET] },
      { server: registry.server, secret: SECRET },
      { ...registry, username: 'a\nb' },
    ].map((body) => api.post('/registry/create', body, { token })),
  );
  expect(wrong.map(({ status }) => status)).toEqual(wrong.map(() => 400));
  for (const { text } of [made, listed, twin, ...wrong]) expect(text).not.toContain(SECRET);
  expect(JSON.stringify(api.logged)).not.toContain(SECRET);
  expect((await client.listRegistries()).registries).toHaveLength(1);
  await client.deleteRegistry({ id: registries[0]?.id ?? '' });
  expect((await client.listRegistries()).registries).toEqual([]);
});

test("an account's image is listed after the catalog, launched by its id, and unknown to others", async () => {
  const { client } = await api.newAccount();
  const other = await api.newAccount();
  const { imageId } = await client.createImage({ name: 'tool', ref: 'registry.example.org/team/tool' });
  const mine = (await client.listImages({ pager })).images.at(-1);
  expect(mine).toMatchObject({ imageId, isPublic: 'false', ref: 'registry.example.org/team/tool:latest', tags: null });
  expect((await other.client.listImages({ pager })).images.map((image) => image.imageId)).not.toContain(imageId);
  await client.launch(launchRequest({ imageId }));
  await expect(other.client.launch(launchRequest({ imageId }))).rejects.toMatchObject({
    status: 404,
    code: 'not_found',
  });
  await expect(other.client.deleteImage({ imageId })).rejects.toMatchObject({ status: 404, code: 'not_found' });
  expect(await client.deleteImage({ imageId })).toEqual({ imageId });
  await expect(client.launch(launchRequest({ imageId }))).rejects.toMatchObject({ status: 404 });
});

test.each([
  [{ name: 'a' }, /"ref"/],
  [{ name: '', ref: 'debian' }, /"name".*1 to 128/],
  [{ name: 'a', ref: 'Debian' }, /"ref".*lower-case.*registry\.example\.org\/name:tag/],
  [{ name: 'a', ref: 'berth.local/x' }, /"ref".*not a registry/],
  [{ name: 'a', ref: `a/${'b'.repeat(600)}` }, /"ref".*at most 500/],
])('refuses an image %j, naming the field and a valid value', async (body, why) => {
  const { client, token } = await api.newAccount();
  const { status, json } = await api.post('/image/create', body, { token });
  expect(status).toBe(400);
  expect(json).toMatchObject({ message: expect.stringMatching(why) });
  expect((await client.listImages({ pager })).images.every(({ isPublic }) => isPublic === 'true')).toBe(true);
});

test('refuses to save an instance without a container, and an unknown one', async () => {
  const { client } = await api.newAccount();
  const { instanceId } = await client.launch(launchRequest());
  await expect(client.saveImage({ instanceId, name: 'mine' })).rejects.toMatchObject({ status: 409, code: 'not_now' });
  await expect(client.saveImage({ instanceId: 'nothing', name: 'mine' })).rejects.toMatchObject({ status: 404 });
});
