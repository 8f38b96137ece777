/** What a request takes of its account's rate for the rows that it reads. */
import { expect, onTestFinished, test } from 'vitest';
import { noteQuery } from '../../../src/async/rows-read.ts';
import { jsonRouteNames, routeNames, routeOf } from '../../../src/contract/routes.ts';
import type { Control } from '../../../src/control/index.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { costOfRows, makeRequestRates } from '../../../src/edge/http/request-rates.ts';
import { needsSpace } from '../../../src/edge/http/space-guard.ts';
import { exampleRequest } from '../server/route-requests.ts';
import { fakeCaller, fakeControl } from './fake-control.ts';
import { startEdge } from './harness.ts';

/** Control that reads `rows` wherever it is asked, and refuses; each token is an account. */
function readingControl(rows: () => number): { control: Control; asked: Set<string> } {
  const asked = new Set<string>();
  let current = '';
  const read = (): never => {
    asked.add(current);
    noteQuery(rows());
    throw new Refusal('not_now', 'read');
  };
  const authenticate: Control['access']['authenticate'] = async (credential) => {
    current = credential.kind === 'token' ? credential.token : '';
    return { ...fakeCaller, accountId: current, roles: ['admin'] };
  };
  const given = { access: { authenticate }, quotas: { requestsPerSecond: () => 1 } };
  return { control: fakeControl(given, () => read), asked };
}

test('every route that reads takes the rows of its answer, and owes one bucket at most', async () => {
  const { control, asked } = readingControl(() => 1_000_000);
  const api = await startEdge(control);
  onTestFinished(() => api.stop());
  const unpaid: string[] = [];
  const names = routeNames.filter((name) => routeOf(name).reads);
  for (const name of names) {
    const { method, path, headers, body } = exampleRequest(name);
    const { headers: answered } = await api.send(path, { method, headers, body: body ?? undefined, token: name });
    if (answered.ratelimit !== '"account";r=0;t=20') unpaid.push(`${name}: ${String(answered.ratelimit)}`);
  }
  const quiet = names.filter((name) => !asked.has(name));
  expect(unpaid.map((line) => line.split(':')[0])).toEqual(quiet);
  // Answered from the credential.
  expect(quiet).toEqual(['userInfo']);
});

test('stops, deletions and all else that is done with a full disk pass in debt, up to a bucket', async () => {
  const { control } = readingControl(() => 1_000_000);
  const api = await startEdge(control);
  onTestFinished(() => api.stop());
  const changes = jsonRouteNames.filter((name) => !routeOf(name).reads && routeOf(name).who !== 'anyone');
  const passed: string[] = [];
  for (const name of changes) {
    const { method, path, headers, body } = exampleRequest(name);
    const send = () => api.send(path, { method, headers, body: body ?? undefined, token: name });
    await api.post('/user/key/list', {}, { token: name });
    const first = await send();
    if (first.status === 429) continue;
    passed.push(name);
    const others = await Promise.all(Array.from({ length: 12 }, send));
    expect(
      others.map(({ status }) => status),
      name,
    ).toContain(429);
  }
  expect(passed).toEqual(changes.filter((name) => !needsSpace(routeOf(name))));
  expect(passed).toEqual(expect.arrayContaining(['stop', 'terminate', 'deleteVolume', 'stopAnyInstance']));
});

test('a page of a hundred rows takes one request, and 25 more rows one more', async () => {
  expect([0, 100, 300, 324, 325, 600, 20_000].map(costOfRows)).toEqual([0, 0, 0, 0, 1, 12, 788]);
  const { control } = readingControl(() => 100);
  const api = await startEdge(control);
  onTestFinished(() => api.stop());
  expect((await api.post('/user/key/list', {}, { token: 'ann' })).headers.ratelimit).toBe('"account";r=9;t=1');
});

test('a read of an administrator takes two requests, as all that the audit log records', async () => {
  const { control } = readingControl(() => 0);
  const api = await startEdge(control);
  onTestFinished(() => api.stop());
  const leftAfter = async (path: string, token: string) => (await api.post(path, {}, { token })).headers.ratelimit;
  expect(await leftAfter('/admin/account/list', 'ann')).toBe('"account";r=8;t=2');
  expect(await leftAfter('/user/key/list', 'bob')).toBe('"account";r=9;t=1');
});

test('a debt makes the next request wait until it is refilled; it shortens no longer one of a body', () => {
  let nowMs = 5_000;
  const rates = makeRequestRates({ perAddress: 1, perAccount: () => 1, isProxy: () => false, now: () => nowMs });
  let shown = '';
  const reply = { header: (name: string, value: string) => (name === 'ratelimit' ? ((shown = value), reply) : reply) };
  // The reply is used for its headers alone.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const to = reply as never;
  const take = () => rates.takeOfAccount('ann', 1, to);
  rates.chargeAccount('ann', 1_000, to);
  expect(shown).toBe('"account";r=0;t=20');
  nowMs += 10_000;
  expect(take).toThrow(/25 rows that it reads beyond 300 1 more; wait 1 s/);
  nowMs += 1_000;
  take();
  expect(shown).toBe('"account";r=0;t=10');
  rates.takeOfAccount('bob', 60, to);
  rates.chargeAccount('bob', 1, to);
  expect(shown).toBe('"account";r=0;t=60');
});
