/**
 * The whole server serves files of the right volume; `files.test.ts` covers the files themselves.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../../src/contract/client.ts';
import { startApi, type TestApi } from './harness.ts';
import { ids } from './control-fixture.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const askAll = (client: Client, id: string): Promise<PromiseSettledResult<unknown>[]> =>
  Promise.allSettled([
    client.listFiles({ id, path: '' }),
    client.createFolder({ id, path: 'a' }),
    client.downloadFile(id, 'a'),
    client.uploadFile(id, 'a', 'text'),
    client.deleteFile(id, 'a'),
  ]);
const expectAllRefused = (asked: PromiseSettledResult<unknown>[], code: string, words: string): void =>
  expect(asked).toEqual(
    asked.map(() => ({
      status: 'rejected',
      reason: expect.objectContaining({ code, message: expect.stringContaining(words) }),
    })),
  );

test('serves a volume to its owner only, and no files before it is Bound', async () => {
  const [alice, bob] = [await api.newAccount(), await api.newAccount()];
  const asked = { name: 'v', sizeGB: 1, region: ids.region, volumeType: 'filesystem' } as const;
  const { volume } = await alice.client.createVolume(asked);
  expectAllRefused(await askAll(alice.client, volume.id), 'not_now', 'when it is Bound');
  expectAllRefused(await askAll(bob.client, volume.id), 'not_found', 'not found');
  expectAllRefused(await askAll(alice.client, randomUUID()), 'not_found', 'not found');
});
