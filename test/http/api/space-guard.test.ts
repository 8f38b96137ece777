/** Requests while the disk of the database is full. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BASE_PATH, routeNames, routeOf } from '../../../src/contract/routes.ts';
import { storageFull } from '../../../src/domain/kernel/refusal.ts';
import { ADMIN_TOKEN, fakeControl } from './fake-control.ts';
import { startEdge, type BareApi } from './harness.ts';

let api: BareApi;
beforeAll(async () => {
  const refuseIfFull = (): never => {
    throw storageFull();
  };
  api = await startEdge(fakeControl({ refuseIfFull, accounts: { registers: () => true } }));
});
afterAll(() => api.stop());

const isRefused = async (name: (typeof routeNames)[number], token?: string): Promise<boolean> => {
  const { method, path } = routeOf(name);
  const url = BASE_PATH + path.replace('{id}', 'a').replace('{path}', 'b');
  const headers = { 'content-type': 'application/json' };
  const body = method === 'POST' ? {} : undefined;
  const { status, headers: answered } = await api.send(url, { method, body, headers, ...(token && { token }) });
  expect((status === 507) === (answered['x-error-code'] === 'storage_full')).toBe(true);
  return status === 507;
};

describe('on a full disk', () => {
  test('reads pass', async () => {
    const reads = routeNames.filter((name) => routeOf(name).reads);
    for (const name of reads) expect([name, await isRefused(name, ADMIN_TOKEN)]).toEqual([name, false]);
  });

  test('logins, stops and deletions pass, and all other changes are refused', async () => {
    const passed: string[] = [];
    for (const name of routeNames.filter((one) => !routeOf(one).reads))
      if (!(await isRefused(name, ADMIN_TOKEN))) passed.push(name);
    expect(passed.filter((name) => !name.startsWith('delete')).sort()).toEqual([
      'cancelOperation',
      'changePassword',
      'closeTerminal',
      'disableAccount',
      'drainRegion',
      'exec',
      'handleStray',
      'login',
      'logout',
      'open',
      'openExec',
      'openTerminal',
      'revokeLogin',
      'revokeSession',
      'stop',
      'stopAnyInstance',
      'terminate',
      'terminateAnyInstance',
      'unsharePort',
    ]);
    expect(routeNames.filter((name) => name.startsWith('delete') && !passed.includes(name))).toEqual([]);
  });

  test('an unauthenticated request gets not_logged_in', async () => {
    expect(await isRefused('launch')).toBe(false);
  });

  test('the page that makes accounts says why it makes none', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: api.origin };
    const reply = await api.send('/register', { method: 'POST', headers, body: 'username=ann' });
    expect([reply.status, reply.text]).toEqual([507, expect.stringContaining('was not stored')]);
  });
});
