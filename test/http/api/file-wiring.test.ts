/** That the whole server asks for files of the right volume: what the files themselves do is in `files.test.ts`. */
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

test('a volume is its owner’s, and gives no files before it is Bound', async () => {
  const [alice, bob] = [await api.newAccount(), await api.newAccount()];
  const asked = { name: 'v', sizeGB: 1, region: ids.region, volumeType: 'filesystem' } as const;
  const { volume } = await alice.client.createVolume(asked);
  expectAllRefused(await askAll(alice.client, volume.id), 'not_now', 'once it is Bound');
  expectAllRefused(await askAll(bob.client, volume.id), 'not_found', 'not found');
  expectAllRefused(await askAll(alice.client, randomUUID()), 'not_found', 'not found');
});
