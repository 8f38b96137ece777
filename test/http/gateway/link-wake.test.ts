/** Starts by requests at a gateway in a process of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Wake } from '../../../src/control/index.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { followLink } from '../../../src/edge/link/follow-control.ts';
import { serveLink } from '../../../src/edge/link/serve.ts';
import { ALICE, idOf, onCleanup } from './harness.ts';

const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const away = async (): Promise<never> => Promise.reject(new Error('not called'));

test('asks the API to start an instance, and passes on its refusal', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-link-'));
  const path = join(folder, 'gateway.sock');
  const asked: unknown[] = [];
  const wake: Wake = async (request) => {
    asked.push(request);
    if (request.accountId === null) throw new Refusal('too_many_requests', 'too often', { retryAfterS: 60 });
    return { dollarsPerHour: 0.5, expectedMs: 1_500 };
  };
  const link = await serveLink({
    address: path,
    routeTable: { follow: async (send) => send({ snapshot: 'last', routes: [], gone: [] }) },
    forwarding: {
      redeem: away,
      session: away,
      share: away,
      ssh: away,
      recordSshLogin: away,
      beginTraffic: () => () => {},
      onRevoked: () => () => {},
    },
    notebookBar: { read: away, stop: away },
    authenticate: away,
    wake,
    issuer: 'https://berth.test',
    ownRegionId: 'own',
    regions: { current: () => [], onChange: () => () => {} },
    log,
  });
  const following = followLink({ address: path, log });
  onCleanup(async () => {
    await following.stop();
    await link.stop();
    await rm(folder, { recursive: true });
  });
  await following.ready;
  const visitor = { address: '192.0.2.7', userAgent: 'curl/8' };
  const request = { instanceId: idOf('a'), accountId: ALICE, credential: 'login', visitor, starts: true } as const;
  expect(await following.wake(request)).toEqual({ dollarsPerHour: 0.5, expectedMs: 1_500 });
  const refused = await following.wake({ ...request, accountId: null }).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: 'too_many_requests', message: 'too often', retryAfterS: 60 });
  expect(asked).toEqual([request, { ...request, accountId: null }]);
});
