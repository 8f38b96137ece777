/**
 * Errors for missing fields and wrong types (docs/interface.md §7 and §10), for every field of §4.
 */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { BareApi } from './harness.ts';
import { startEdge, launchRequest } from './harness.ts';
import { fakeControl, GOOD_TOKEN } from './fake-control.ts';

interface RequestField {
  path: string;
  type: string;
  required: boolean;
}

const expected: { requests: Record<string, RequestField[]> } = JSON.parse(
  await readFile(new URL('../../expected/interface-fields.json', import.meta.url), 'utf8'),
);

const mount = { mountPath: '/root/x', remoteStorageName: 'v', remoteStorageId: 'id', type: 'filesystem' };
const requests: Record<string, { route: string; good: () => object }> = {
  launch: { route: '/instance/create', good: () => launchRequest({ remoteStorages: [{ ...mount }, { ...mount }] }) },
  listInstances: { route: '/instance/list', good: () => ({ pager: { currentPage: 1, pageSize: 10 } }) },
  createVolume: {
    route: '/storage/volume/create',
    good: () => ({ name: 'v', sizeGB: 1, region: 'r', volumeType: 'filesystem' }),
  },
};

const wrongValues: Record<string, unknown> = { string: 'text', number: 7, boolean: true, object: {}, array: [] };

let api: BareApi;
beforeAll(async () => {
  api = await startEdge(
    fakeControl({
      instances: {
        launch: async () => ({ instanceId: 'notebook-1', operationId: 'notebook-1/1' }),
        list: async () => ({ texts: [], totalEntries: 0 }),
      },
      volumes: { create: async () => ({ volumeText: '{}', operationId: 'volume/1' }) },
    }),
  );
});
afterAll(() => api.stop());

/**
 * Copies the body with the field at `path` changed; `change` returns undefined to leave it out.
 * `[]` is the item `index`.
 */
function changed(body: object, path: string, index: number, value: unknown): unknown {
  const copy: unknown = structuredClone(body);
  const keys = path.split('.').flatMap((part) => (part.endsWith('[]') ? [part.slice(0, -2), String(index)] : [part]));
  const last = keys.pop() ?? '';
  const holder = keys.reduce<unknown>(
    (at, key) => (typeof at === 'object' && at !== null ? Reflect.get(at, key) : at),
    copy,
  );
  if (typeof holder !== 'object' || holder === null) throw new Error(`the valid body has no field ${path}`);
  if (value === undefined) Reflect.deleteProperty(holder, last);
  else Reflect.set(holder, last, value);
  return copy;
}

const asSent = (path: string, index: number): string => path.replace('[]', `[${index}]`);

for (const [name, { route, good }] of Object.entries(requests)) {
  describe(route, () => {
    const fields = expected.requests[name] ?? [];
    const ask = (body: unknown) => api.post(route, body, { token: GOOD_TOKEN });

    test('accepts a body with every field', async () => {
      expect(fields.length).toBeGreaterThan(0);
      expect((await ask(good())).status).toBe(200);
    });

    test.each(fields)('a missing or null $path', async ({ path, required }) => {
      const index = path.includes('[]') ? 1 : 0;
      for (const value of [undefined, null]) {
        const reply = await ask(changed(good(), path, index, value));
        if (required) {
          expect(reply.status).toBe(400);
          expect(reply.json).toEqual({ message: `field "${asSent(path, index)}" is not set` });
          expect(reply.headers['x-error-code']).toBe('field_missing');
        } else expect(reply.status, reply.text).toBe(200);
      }
    });

    test.each(fields)('$path of every wrong type', async ({ path, type }) => {
      for (const [wrong, value] of Object.entries(wrongValues)) {
        if (wrong === type) continue;
        const reply = await ask(changed(good(), path, 0, value));
        expect(reply.json, `${path} as ${wrong}`).toEqual({ message: `type mismatch for field "${asSent(path, 0)}"` });
        expect(reply.status).toBe(400);
        expect(reply.headers['x-error-code']).toBe('field_type');
      }
    });
  });
}

describe('the order of reported errors', () => {
  const message = async (body: unknown): Promise<unknown> =>
    (await api.post('/instance/create', body, { token: GOOD_TOKEN })).json;
  const { billing: _billing, nodePorts: _nodePorts, ...withoutTwo } = launchRequest();

  test('reports the first missing field of the tables: rows of the request before billing and the others', async () => {
    expect(await message({})).toEqual({ message: 'field "name" is not set' });
    expect(await message({ ...withoutTwo })).toEqual({ message: 'field "billing" is not set' });
    expect(await message({ ...launchRequest(), billing: {}, nodePorts: null })).toEqual({
      message: 'field "nodePorts" is not set',
    });
    expect(await message({ ...launchRequest(), billing: {}, remoteStorages: [{}], instanceConfiguration: {} })).toEqual(
      {
        message: 'field "billing.chargeMode" is not set',
      },
    );
    expect(await message({ ...launchRequest(), remoteStorages: [{}], instanceConfiguration: {} })).toEqual({
      message: 'field "remoteStorages[0].mountPath" is not set',
    });
    expect(await message({ ...launchRequest(), instanceConfiguration: {} })).toEqual({
      message: 'field "instanceConfiguration.enableCommonData" is not set',
    });
  });

  test('reports a missing field before a wrong type, a wrong type before a wrong value', async () => {
    const instanceConfiguration = { enableCommonData: 'no', enableDocker: false };
    expect(
      await message({
        ...launchRequest(),
        name: 7,
        billing: { chargeMode: 'never', duration: 1 },
        instanceConfiguration,
      }),
    ).toEqual({
      message: 'field "instanceConfiguration.initScript" is not set',
    });
    expect(await message({ ...launchRequest(), name: '', billing: { chargeMode: 1, duration: 'x' } })).toEqual({
      message: 'type mismatch for field "billing.chargeMode"',
    });
    expect(await message({ ...launchRequest(), nodePorts: [80, '81', null] })).toEqual({
      message: 'type mismatch for field "nodePorts[1]"',
    });
    expect(await message({ ...launchRequest(), remoteStorages: [null] })).toEqual({
      message: 'type mismatch for field "remoteStorages[0]"',
    });
    expect(
      await message({ ...launchRequest(), nodePorts: [0], billing: { chargeMode: 'perHour', duration: 2 } }),
    ).toEqual({
      message: 'field "nodePorts[0]" is 0: it must be a whole number from 1 to 65535',
    });
  });
});
