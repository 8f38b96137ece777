import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchRequest, startApi, type TestApi } from './harness.ts';

const SECRET = 'do-not-tell';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

test('sets, lists and deletes variables of an account, and never repeats a secret', async () => {
  const { client } = await api.newAccount();
  expect(await client.listEnvironment()).toEqual({ variables: [] });
  const given = { environment: { PLAIN: 'a\nb' }, secrets: { TOKEN: SECRET } };
  expect(await client.setEnvironment(given)).toEqual({ runningInstances: 0 });
  const member = { isLost: false, from: 'account', updatedAtUnixMs: expect.any(Number) };
  const token = { ...member, name: 'TOKEN', value: null, isSecret: true };
  expect(await client.listEnvironment()).toEqual({
    variables: [{ ...member, name: 'PLAIN', value: 'a\nb', isSecret: false }, token],
  });
  await client.deleteEnvironment({ names: ['PLAIN'] });
  expect(await client.listEnvironment()).toEqual({ variables: [token] });
  // A secret that becomes a plain variable has a new value.
  await client.setEnvironment({ environment: { TOKEN: 'shown' } });
  expect((await client.listEnvironment()).variables[0]).toMatchObject({ value: 'shown', isSecret: false });
});

test('a launch with secrets shows them nowhere: in no answer, event, operation or log', async () => {
  const { client, token } = await api.newAccount();
  const request = launchRequest({ environment: { PLAIN: 'x' }, secrets: { TOKEN: SECRET } });
  const { instanceId } = await client.launch(request);
  const { variables } = await client.listInstanceEnvironment({ instanceId });
  const shown = variables.filter(({ name }) => !/THREADS$|CPU_COUNT$/.test(name));
  expect(shown.map(({ name, from }) => [name, from])).toEqual([
    ['BERTH_BASE_URL', 'berth'],
    ['BERTH_INSTANCE_ID', 'berth'],
    ['BERTH_PORT_PREFIX', 'berth'],
    ['BERTH_PORT_URL', 'berth'],
    ['PLAIN', 'instance'],
    ['TOKEN', 'instance'],
  ]);
  await client.setInstanceEnvironment({ instanceId, secrets: { OTHER: SECRET } });
  await client.deleteInstanceEnvironment({ instanceId, names: ['PLAIN'] });
  const pager = { currentPage: 1, pageSize: 10 };
  const answers = await Promise.all(
    Object.entries({
      '/instance/list': { pager },
      '/instance/get': { instanceId },
      '/instance/environment/list': { instanceId },
      '/operation/list': { instanceId, pager },
      '/user/environment/list': {},
    }).map(async ([route, body]) => (await api.post(route, body, { token })).text),
  );
  answers.push(JSON.stringify(api.logged));
  const tooMuch = { instanceId, secrets: { A: `${SECRET}\0` } };
  answers.push((await api.post('/instance/environment/set', tooMuch, { token })).text);
  expect(answers.filter((answer) => answer.includes(SECRET))).toEqual([]);
  expect(answers[2]).toMatch(/"OTHER","value":null.*"TOKEN","value":null/);
  expect(answers.at(-1)).toMatch(/field \\"secrets\\" has the variable \\"A\\": a value is UTF-8 text without NUL/);
});

test('only an administrator sets variables of the installation, which each account sees', async () => {
  const { client } = await api.newAccount();
  await expect(client.setInstallationEnvironment({ environment: { A: 'x' } })).rejects.toMatchObject({ status: 403 });
  await expect(client.listInstallationEnvironment()).rejects.toMatchObject({ status: 403 });
  const admin = api.admin.client;
  await admin.setInstallationEnvironment({ environment: { MIRROR: 'x' }, secrets: { TOKEN: SECRET } });
  expect((await admin.listInstallationEnvironment()).variables).toMatchObject([
    { name: 'MIRROR', value: 'x' },
    { name: 'TOKEN', value: null },
  ]);
  const { instanceId } = await client.launch(launchRequest());
  const { variables } = await client.listInstanceEnvironment({ instanceId });
  expect(variables.filter(({ from }) => from === 'installation').map(({ name, value }) => [name, value])).toEqual([
    ['MIRROR', 'x'],
    ['TOKEN', null],
  ]);
  await admin.deleteInstallationEnvironment({ names: ['MIRROR', 'TOKEN'] });
  expect((await admin.listInstallationEnvironment()).variables).toEqual([]);
});
