/**
 * Operations over HTTP: the header with the id, the routes that return operations, and the
 * unchanged bodies.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OPERATION_HEADER } from '../../../src/contract/compute/operation.ts';
import { jsonRouteNames, routes } from '../../../src/contract/routes.ts';
import { startApi, launchRequest, type Account, type Reply, type TestApi } from './harness.ts';
import { ids } from './control-fixture.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const pager = { currentPage: 1, pageSize: 10 };
const header = OPERATION_HEADER.toLowerCase();
const operationOf = ({ headers }: Reply): unknown => headers[header];

const act = (who: Account, route: string, body: unknown, key?: string): Promise<Reply> =>
  api.post(route, body, { token: who.token, headers: key === undefined ? {} : { 'idempotency-key': key } });

test('each action returns its operation in a header, with an unchanged body', async () => {
  const ann = await api.newAccount();
  const { instanceId } = await ann.client.launch(launchRequest(), { idempotencyKey: 'launch' });
  const launched = await act(ann, '/instance/create', launchRequest(), 'launch');
  expect([launched.text, operationOf(launched)]).toEqual([JSON.stringify({ instanceId }), `${instanceId}.1`]);
  for (const [action, generation] of [
    ['stop', 2],
    ['terminate', 3],
  ] as const) {
    const reply = await act(ann, `/instance/${action}`, { instanceId }, action);
    const again = await act(ann, `/instance/${action}`, { instanceId }, action);
    for (const { text, headers, status } of [reply, again])
      expect({ text, status, id: headers[header] }).toEqual({
        text: JSON.stringify({ instanceId }),
        status: 200,
        id: `${instanceId}.${generation}`,
      });
  }
  const made = await act(
    ann,
    '/storage/volume/create',
    { name: 'v', sizeGB: 1, region: ids.region, volumeType: 'filesystem' },
    'v',
  );
  const { volume } = JSON.parse(made.text);
  expect(Object.keys(JSON.parse(made.text))).toEqual(['volume']);
  expect(operationOf(made)).toBe(`${volume.id}.1`);
  const gone = await act(ann, '/storage/volume/delete', { id: volume.id }, 'gone');
  expect([gone.text, operationOf(gone)]).toEqual([JSON.stringify({ id: volume.id }), `${volume.id}.2`]);
  expect(operationOf(await act(ann, '/storage/volume/delete', { id: volume.id }, 'gone'))).toBe(`${volume.id}.2`);
  const { imageId } = await ann.client.createImage({ name: 'tool', ref: 'registry.example.org/team/tool' });
  const dropped = await act(ann, '/image/delete', { imageId }, 'dropped');
  expect([dropped.text, operationOf(dropped)]).toEqual([JSON.stringify({ imageId }), `${imageId}.2`]);
  expect(operationOf(await act(ann, '/image/delete', { imageId }, 'dropped'))).toBe(`${imageId}.2`);
});

test('synchronous actions and refusals return no operation', async () => {
  const ann = await api.newAccount();
  expect(operationOf(await act(ann, '/user/key/create', { name: 'k' }))).toBeUndefined();
  expect(operationOf(await act(ann, '/instance/list', { pager }))).toBeUndefined();
  const refused = await act(ann, '/instance/stop', { instanceId: 'notebook-none' });
  expect([refused.status, operationOf(refused)]).toEqual([404, undefined]);
});

test('an operation is read, listed and cancelled; the instance shows its progress', async () => {
  const { client } = await api.newAccount();
  const { instanceId } = await client.launch(launchRequest());
  const { operation } = await client.getOperation({ operationId: `${instanceId}.1` });
  expect(operation).toMatchObject({
    operationId: `${instanceId}.1`,
    subjectId: instanceId,
    kind: 'launch',
    cause: 'user',
    state: 'Running',
    endedAtUnixMs: null,
    error: null,
    cancellable: true,
  });
  const got = await client.getInstance({ instanceId });
  expect(got.instance).toEqual((await client.listInstances({ pager })).instances[0]);
  expect(got).toMatchObject({ operationId: `${instanceId}.1`, timeline: operation.stages });
  expect(got.timeline.map(({ name, text }) => [name, text])).toEqual([
    ['Queued', 'scheduled'],
    ['Placed', 'capacity is allocated'],
  ]);

  const cancelled = await client.cancelOperation({ operationId: `${instanceId}.1` });
  expect(cancelled.operation).toMatchObject({ kind: 'launch', state: 'Cancelled', cancellable: false });
  await expect(client.cancelOperation({ operationId: `${instanceId}.1` })).rejects.toMatchObject({
    status: 409,
    code: 'not_now',
    message: expect.stringContaining('the operation has already ended (Cancelled)'),
  });
  const { operations, pager: reported } = await client.listOperations({ instanceId, pager });
  expect(operations.map(({ kind, state }) => [kind, state])).toEqual([
    ['terminate', 'Running'],
    ['launch', 'Cancelled'],
  ]);
  expect(reported.totalEntries).toBe(2);
  expect((await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.status).toBe('Released');
});

describe('invalid requests', () => {
  test.each([
    [
      '/operation/list',
      { pager },
      400,
      /^field "instanceId" is not set; or send "volumeId", "snapshotId" or "imageId"$/,
    ],
    ['/operation/list', { instanceId: 'a', volumeId: 'b', pager }, 400, /exclude each other; send only one of them/],
    ['/operation/list', { instanceId: 'a' }, 400, /^field "pager" is not set$/],
    ['/operation/list', { instanceId: 'notebook-none', pager }, 404, /^ent: instance not found$/],
    ['/operation/list', { volumeId: 'none', pager }, 404, /^volume none not found; POST/],
    ['/operation/list', { imageId: 'none', pager }, 404, /^image none not found; POST/],
    ['/operation/get', {}, 400, /^field "operationId" is not set$/],
    ['/operation/get', { operationId: 7 }, 400, /^type mismatch for field "operationId"$/],
    ['/operation/get', { operationId: 'none.1' }, 404, /^operation none\.1 not found/],
    ['/operation/cancel', { operationId: 'none' }, 404, /^operation none not found/],
    ['/instance/get', { instanceId: 'notebook-none' }, 404, /^ent: instance not found$/],
  ] as const)('%s %j is answered %i', async (route, body, status, words) => {
    const reply = await act(api.admin, route, body);
    expect(reply).toMatchObject({ status, json: { status, message: expect.stringMatching(words) } });
    expect(reply.headers['content-type']).toContain('application/problem+json');
  });
});

test('every route that starts an operation accepts an idempotency key', () => {
  const operationRoutes = jsonRouteNames.filter((name) => routes[name].operation);
  expect(operationRoutes).toEqual(
    expect.arrayContaining([
      'launch',
      'stop',
      'start',
      'restart',
      'archive',
      'terminate',
      'createVolume',
      'deleteVolume',
      'saveImage',
      'deleteImage',
    ]),
  );
  expect(operationRoutes.filter((name) => !routes[name].idempotent)).toEqual([]);
});
