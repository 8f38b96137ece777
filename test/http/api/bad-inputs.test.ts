/**
 * Each named bad input gets exactly its committed reply, so that a change of behavior is a visible
 * diff (`vitest run -u`).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { errorKinds } from '../../../src/edge/http/status.ts';
import { badInputs } from './bad-inputs.ts';
import type { TestApi } from './harness.ts';
import { startApi } from './harness.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
/** Replaces random ids; ids of the test catalog stay. */
const steady = (text: string): string =>
  text.replace(UUID, (id) => (id.startsWith('5a3f9d0e') || id.startsWith('00000000') ? id : '<uuid>'));

test('each named bad input gets its pinned reply, and none is a server error', async () => {
  expect(badInputs.length).toBeGreaterThan(220);
  expect(new Set(badInputs.map(({ name, route }) => `${route} ${name}`)).size).toBe(badInputs.length);
  const { token } = await api.newAccount();
  const replies: Record<string, string> = {};
  for (const { name, route, body } of badInputs) {
    const reply = await api.post(route, body, route === '/user/login' ? {} : { token });
    const code = reply.headers['x-error-code'];
    expect(reply.status, `${name}: ${reply.text}`).toBeLessThan(500);
    expect(reply.json, name).toBeTypeOf('object');
    // Zod's own messages never come out, and each code is in the table.
    expect(reply.text).not.toMatch(/Invalid|expected|received|Too (big|small)|ZodError/);
    if (reply.status !== 200) expect(Object.keys(errorKinds)).toContain(code);
    replies[`${route} ${name}`] = `${reply.status} ${code ?? '-'} ${steady(reply.text)}`;
  }
  await expect(`${JSON.stringify(replies, null, 2)}\n`).toMatchFileSnapshot('../../expected/bad-inputs.json');
});

test('the server still serves after all bad inputs', async () => {
  const { client } = await api.newAccount();
  expect((await client.listInstances({ pager: { currentPage: 1, pageSize: 1 } })).pager.totalEntries).toBe(0);
  expect(api.logged.filter(({ level }) => level === 'error')).toEqual([]);
});
