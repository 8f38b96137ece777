/**
 * Two accounts on the real server with the simulated engine: Mallory can neither reach Alice's
 * resources by the API or the gateway, nor distinguish them from unknown ones. A counter-proof
 * shows that each tried resource exists and opens to Alice. Every address of the gateway:
 * `test/http/gateway/account-isolation.test.ts`.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import WebSocket from 'ws';
import { exampleOf } from '../../../src/contract/examples.ts';
import {
  BASE_PATH,
  jsonRouteNames,
  jsonRouteOf,
  routeNames,
  routeOf,
  routes,
  type RouteName,
} from '../../../src/contract/routes.ts';
import { EXEC_PROTOCOL, TERMINAL_PROTOCOL } from '../../../src/contract/compute/exec.ts';
import { fileUrl } from '../../../src/contract/storage/file.ts';
import { exchange, M as OTHER, plain, upgrade, DOMAIN } from '../gateway/access-matrix.ts';
import { hosts, spellings } from '../gateway/path-spellings.ts';
import { firstLaunchRequest, running } from '../../fixtures/first-launch.ts';
import { bodyOf, fieldsOf, idsOf, streamTarget } from './route-requests.ts';
import { login, startServerProcess, type Client, type ServerProcess } from '../../fixtures/server-process.ts';

interface Person {
  client: Client;
  token: string;
  instanceId: string;
  volumeId: string;
  apiKey: string;
  /** Cookie of the gateway. */
  session: string;
}

const LISTENS = [8000, 8001, 8002, 8003].map((port) => `# berth-sim: listen ${port} http\n`).join('');
const pager = { currentPage: 1, pageSize: 100 };
const never = (): string => `notebook-${randomUUID()}`;

let server: ServerProcess;
let gatewayPort: number;
let apiPort: number;
let alice: Person;
let mallory: Person;
/** Alice's ids, by the field names of the routes. */
let hers: Record<string, string>;
/** Fields of a launch. */
let launchOptions: { region: string; type: string; image: string };

const passwordOf = (username: string): string => `the password of ${username}`;

async function person(admin: Client, username: string): Promise<Person> {
  const password = passwordOf(username);
  await admin.createUser({ username, password, balance: 1_000 });
  const { client, token } = await login(server, username, password);
  const request = await firstLaunchRequest(client, { name: 'mine', initScript: LISTENS, nodePorts: [8000] });
  launchOptions = { region: request.region, type: request.instanceTypeId, image: request.imageId };
  const { volume } = await client.createVolume({
    name: 'mine',
    sizeGB: 1,
    region: request.region,
    volumeType: 'filesystem',
  });
  const { instanceId } = await client.launch(request);
  await running(client, instanceId);
  const { key } = await client.createApiKey({ name: 'mine' });
  const opened = await fetch((await client.open({ instanceId })).url.replace(DOMAIN, `127.0.0.1:${gatewayPort}`), {
    redirect: 'manual',
  });
  const session = /berth_gateway=([^;]+)/.exec(opened.headers.get('set-cookie') ?? '')?.[1] ?? '';
  return { client, token, instanceId, volumeId: volume.id, apiKey: key.fullKey, session };
}

beforeAll(async () => {
  server = await startServerProcess({
    nodePorts: '32200-32249',
    settings: { BERTH_ENGINE: 'simulated', BERTH_DOMAIN: `*.${DOMAIN}`, BERTH_WEBHOOK_ADDRESSES: 'any' },
  });
  [gatewayPort = 0, apiPort = 0] = [server.gatewayUrl, server.apiUrl].map((url) => Number(new URL(url).port));
  const { client: admin } = await login(server);
  [alice, mallory] = await Promise.all([person(admin, 'alice'), person(admin, 'mallory')]);
  const { client, instanceId, volumeId } = alice;
  await client.setPortAccess({ instanceId, port: 8001, access: 'signedIn' });
  const { shareId, token } = await client.sharePort({ instanceId, port: 8003, seconds: 3_600 });
  // Nothing listens there: the snapshot's event is a failed delivery.
  const { webhook } = await client.createWebhook({ url: 'http://127.0.0.1:1/' });
  const { snapshot } = await client.createSnapshot({ volumeId, name: 'kept' });
  const deliveryId = await vi.waitFor(async () => {
    const { deliveries } = await client.listWebhookDeliveries({ id: webhook.id });
    return deliveries[0]?.deliveryId ?? expect.fail('no delivery yet');
  }, 10_000);
  const { imageId } = await client.createImage({ name: 'hers', ref: 'registry.test/hers:1' });
  const { operations } = await client.listOperations({ instanceId, pager });
  hers = {
    instanceId,
    volumeId,
    shareId,
    snapshotId: snapshot.id,
    imageId,
    operationId: operations[0]?.operationId ?? '',
    token,
    session: (await client.listSessions()).sessions[0]?.id ?? '',
    key: (await client.listApiKeys()).keys[0]?.id ?? '',
    webhook: webhook.id,
    deliveryId,
  };
  if (Object.values(hers).includes('')) throw new Error(`something of hers is not there: ${JSON.stringify(hers)}`);
});
afterAll(async () => {
  await server?.stop();
});

const asMallory = (): Record<string, readonly string[]> => ({
  token: [`Authorization: Bearer ${mallory.token}`],
  'API key': [`X-API-Key: ${mallory.apiKey}`],
  session: [`Cookie: berth_gateway=${mallory.session}`, 'Sec-Fetch-Site: none'],
});

test('the gateway: no variant of path, host or credential opens Alice’s instance to Mallory or without a login', async () => {
  const { instanceId: her } = alice;
  const nobody = never();
  const ports: [port: number, isForAccounts: boolean][] = [
    [8888, false],
    [8002, false],
    [8003, false],
    [22, false],
    [8001, true],
  ];
  const addressesOf = (id: string, port: number): Record<string, { host: string; path: string }> => {
    const paths = { forward: `/forward/${id}/${port}/`, ...(port === 8888 ? { notebook: `/notebook/${id}/` } : {}) };
    const all: Record<string, { host: string; path: string }> = {};
    for (const [surface, path] of Object.entries(paths)) {
      all[surface] = { host: DOMAIN, path };
      for (const [name, spell] of Object.entries(spellings))
        all[`${surface}: ${name}`] = {
          host: DOMAIN,
          path: spell(path, id, port).replaceAll(OTHER, mallory.instanceId),
        };
    }
    const host = `${port}-${id}.${DOMAIN}`;
    all['host'] = { host, path: '/' };
    for (const [name, spell] of Object.entries(hosts))
      all[`host: ${name}`] = { host: spell(host).replaceAll(OTHER, mallory.instanceId), path: '/' };
    return all;
  };
  const plainly = (answer: string | null): string | undefined =>
    answer
      ?.replaceAll(new RegExp(her, 'gi'), 'x')
      .replaceAll(new RegExp(nobody, 'gi'), 'x')
      .replaceAll(/^date:.*$/gim, '');
  const wrong: string[] = [];
  let tried = 0;
  for (const [port, isForAccounts] of ports) {
    const elsewhere = addressesOf(nobody, port);
    for (const [who, auth] of Object.entries({ 'a stranger': [], ...(isForAccounts ? {} : asMallory()) })) {
      for (const [name, request] of Object.entries(addressesOf(her, port))) {
        tried += 1;
        const answer = await exchange(gatewayPort, plain(request, auth));
        // A simulated instance returns its id.
        if (answer === null || answer.includes(`"instanceId":"${her}"`))
          wrong.push(`${who}, ${port}, ${name}: ${answer ?? 'no end'}`);
        const there = elsewhere[name];
        if (who !== 'token' || there === undefined || name.includes('two ports')) continue;
        if (plainly(await exchange(gatewayPort, plain(there, auth))) !== plainly(answer))
          wrong.push(`${who}, ${port}, ${name}: tells that it is there`);
      }
      const switched = await exchange(gatewayPort, upgrade({ host: DOMAIN, path: `/forward/${her}/${port}/` }, auth));
      if (!/^HTTP\/1\.1 40[14] /.test(switched ?? '')) wrong.push(`${who}, ${port}, WebSocket: ${switched}`);
      // The same request succeeds for its owner.
      const own = isForAccounts
        ? `/forward/${her}/8000/`
        : who === 'a stranger'
          ? `/forward/${mallory.instanceId}/8000/`
          : `/forward/${mallory.instanceId}/8002/`;
      expect(await exchange(gatewayPort, plain({ host: DOMAIN, path: own }, auth))).toMatch(
        /^HTTP\/1\.1 200 [^]*"simulated":true/,
      );
    }
    if (port !== 22)
      expect(
        await exchange(
          gatewayPort,
          plain({ host: DOMAIN, path: `/forward/${her}/${port}/` }, [`X-API-Key: ${alice.apiKey}`]),
        ),
      ).toMatch(new RegExp(`^HTTP/1\\.1 200 [^]*"instanceId":"${her}"`));
  }
  expect(wrong).toEqual([]);
  expect(tried).toBeGreaterThan(2_000);
  // The link opens its port only.
  const byLink = async (port: number): Promise<number> =>
    (await fetch(`${server.gatewayUrl}/forward/${her}/${port}/`, { headers: { 'x-berth-share': hers['token'] ?? '' } }))
      .status;
  expect([await byLink(8003), await byLink(8002), await byLink(8888)]).toEqual([200, 401, 401]);
});

test('the API: every route with an id answers Mallory for Alice’s id as for an unknown one', async () => {
  const nobody = never();
  const nobodys = Object.fromEntries(Object.keys(hers).map((field) => [field, randomUUID()]));
  Object.assign(nobodys, { instanceId: nobody, operationId: `${nobody}.1` });
  const ask = async (name: RouteName, body: object, token: string): Promise<string> => {
    const route = routeOf(name);
    const isJson = route.kind === 'json';
    const target = isJson ? route.path : streamTarget(route, { ...body });
    const answer = await fetch(`${server.apiUrl}${BASE_PATH}${target}`, {
      method: route.method,
      headers: { authorization: `Bearer ${token}`, ...(isJson ? { 'content-type': 'application/json' } : {}) },
      ...(isJson ? { body: JSON.stringify(fieldsOf(name, body)) } : {}),
    });
    return `${answer.status} ${await answer.text()}`;
  };
  const without = (ids: Record<string, string>, text: string): string => {
    let left = text;
    // An operation's id contains its subject's id, so longer ids go first.
    for (const [field, id] of Object.entries(ids).toSorted(([, a], [, b]) => b.length - a.length))
      left = left.replaceAll(id, field);
    return left;
  };
  // Tried below, but for prices, which are everybody's.
  const tried = new Set<RouteName>(['listOperations', 'launch', 'quote', 'setBilling', 'listPrices']);
  const withIds = routeNames.filter(
    (name) => idsOf(name).length > 0 && routes[name].who === 'account' && !tried.has(name),
  );
  const answers: Record<string, number> = {};
  for (const name of withIds) {
    // Some routes call a snapshot's id volumeId.
    for (const id of ['volumeId', 'snapshotId', 'session', 'key', 'webhook'] as const) {
      const password = passwordOf('mallory');
      const bodies = [hers, nobodys].map((ids) => ({ ...bodyOf(ids), id: ids[id], password }));
      const [theirs = '', nobodyS = ''] = await Promise.all(bodies.map((body) => ask(name, body, mallory.token)));
      // A refusal names the requested id.
      expect([name, without(hers, theirs)]).toEqual([name, without(nobodys, nobodyS)]);
      answers[name] = Number(theirs.slice(0, 3));
    }
  }
  // Fields that name one of several things, or lie deeper.
  const launch = {
    name: 'hostile',
    nodePorts: [],
    instanceTypeId: launchOptions.type,
    region: launchOptions.region,
    billing: { chargeMode: 'perHour', duration: 1 },
  };
  const instanceConfiguration = { enableCommonData: false, enableDocker: false, initScript: '' };
  const deeper = (ids: Record<string, string>): [RouteName, object][] => [
    ...['instanceId', 'volumeId', 'snapshotId', 'imageId'].map((field): [RouteName, object] => [
      'listOperations',
      { [field]: ids[field], pager },
    ]),
    ['setBilling', { instanceId: ids['instanceId'], autoRenew: false }],
    ...(['launch', 'quote'] as const).flatMap((name): [RouteName, object][] => [
      [name, { ...launch, imageId: ids['imageId'], remoteStorages: [], instanceConfiguration }],
      [
        name,
        {
          ...launch,
          imageId: launchOptions.image,
          remoteStorages: [
            { remoteStorageId: ids['volumeId'], remoteStorageName: 'mine', type: 'filesystem', mountPath: '/mnt/x' },
          ],
          instanceConfiguration,
        },
      ],
    ]),
  ];
  const elsewhere = deeper(nobodys);
  for (const [at, [name, body]] of deeper(hers).entries()) {
    const [theirs, nobodyS] = [
      await ask(name, body, mallory.token),
      await ask(name, elsewhere[at]?.[1] ?? {}, mallory.token),
    ];
    expect([name, without(hers, theirs)]).toEqual([name, without(nobodys, nobodyS)]);
    expect([name, theirs]).toEqual([name, expect.stringMatching(/^404 /)]);
  }
  // A body invalid in itself would be refused equally for both, and prove nothing.
  const otherwise = Object.entries(answers).filter(([, status]) => status !== 404);
  expect(otherwise).toEqual([]);
  expect(withIds.length).toBeGreaterThanOrEqual(25);
  // Everything of Alice's is still there, unchanged.
  for (const [name, id] of [
    ['getInstance', ''],
    ['metrics', ''],
    ['activity', ''],
    ['listPorts', ''],
    ['listShares', ''],
    ['getOperation', ''],
    ['getVolume', 'volumeId'],
  ] as const)
    expect([name, await ask(name, { ...bodyOf(hers), id: hers[id] ?? '' }, alice.token)]).toEqual([
      name,
      expect.stringMatching(/^200 /),
    ]);
  const { instance } = await alice.client.getInstance({ instanceId: alice.instanceId });
  expect(instance.instanceRuntimeInfo.status).toBe('Running');
  const { ports } = await alice.client.listPorts({ instanceId: alice.instanceId });
  expect(ports.find(({ port }) => port === 8002)).toBeUndefined();
});

test('the API: routes without an id, and the event stream, answer Mallory with nothing of Alice’s', async () => {
  const secrets = [...Object.values(hers), alice.instanceId, alice.volumeId, 'alice'];
  const names = jsonRouteNames.filter((name) => routes[name].who === 'account' && idsOf(name).length === 0);
  expect(names.length).toBeGreaterThan(20);
  for (const name of names) {
    const { method, path, reads, body } = jsonRouteOf(name);
    const ask = async (token: string): Promise<string> => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const sent = method === 'GET' ? {} : { body: JSON.stringify(exampleOf(body)) };
      const answer = await fetch(`${server.apiUrl}${BASE_PATH}${path}`, { method, headers, ...sent });
      expect([name, answer.status]).not.toEqual([name, 401]);
      return answer.text();
    };
    // A write may end the login.
    const token = reads ? mallory.token : (await login(server, 'mallory', 'the password of mallory')).token;
    const answer = await ask(token);
    expect([name, secrets.filter((secret) => answer.includes(secret))]).toEqual([name, []]);
    if (name === 'listInstances') expect(await ask(alice.token)).toContain(alice.instanceId);
    if (name === 'listSessions') expect(await ask(alice.token)).toContain(hers['session']);
  }
  const events = await fetch(`${server.apiUrl}${BASE_PATH}/events`, {
    headers: { authorization: `Bearer ${mallory.token}`, 'last-event-id': '0' },
  });
  const reader = events.body?.getReader();
  let text = '';
  while (!text.includes(mallory.instanceId)) {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (done) break;
    text += Buffer.from(value).toString();
  }
  await reader?.cancel();
  expect(text).toContain(mallory.instanceId);
  for (const secret of Object.values(hers)) expect(text).not.toContain(secret);
});

test('the API: files of a volume, and variants of paths, hosts and bodies, reveal nothing to Mallory', async () => {
  const body = (id: string): string => JSON.stringify({ instanceId: id });
  const own = mallory.instanceId;
  type Asked = (id: string) => { target: string; lines?: readonly string[]; body?: string; method?: string };
  const get = `${BASE_PATH}/instance/get`;
  const targets = [
    get,
    `/${get}`,
    get.replace('/instance', '//instance'),
    `${get}/`,
    get.replace('get', '%67et'),
    get.replace('/get', '%2fget'),
    get.replace('/get', '%252fget'),
    get.toUpperCase(),
    `${get};x`,
    `${get}.json`,
    `${get}%00`,
    `${BASE_PATH}/./instance/get`,
    `${BASE_PATH}/user/../instance/get`,
    `${BASE_PATH}/%2e/instance/get`,
    `http://127.0.0.1${get}`,
    `http://evil.test${get}`,
    `/..${get}`,
    `\\api\\instance\\get`,
  ];
  const attempts: Asked[] = [
    ...targets.map((target): Asked => (id) => ({ target, body: body(id) })),
    (id) => ({ target: `${get}?instanceId=${id}`, body: body(own) }),
    (id) => ({ target: get, body: `{"instanceId":"${own}","instanceId":"${id}"}` }),
    (id) => ({ target: get, body: `{"instanceId":"${id}","instanceId":"${own}"}` }),
    (id) => ({ target: get, body: `{"instanceId":["${own}","${id}"]}` }),
    (id) => ({ target: get, body: `{"instanceId":{"$eq":"${id}"}}` }),
    (id) => ({ target: get, body: `{"InstanceId":"${id}","instanceId":"${own}"}` }),
    (id) => ({ target: get, body: `{"__proto__":{"instanceId":"${id}"}}` }),
    (id) => ({ target: get, body: body(`${id}\u0000`) }),
    (id) => ({ target: get, body: body(` ${id}`) }),
    (id) => ({ target: get, body: body(id.toUpperCase()) }),
    (id) => ({ target: get, body: body(`${own}' or id='${id}`) }),
    ...[
      'X-Forwarded-User: alice',
      'X-Remote-User: alice',
      'X-Original-URL: /api/instance/get',
      'X-HTTP-Method-Override: GET',
      'X-Forwarded-For: 127.0.0.1',
      'Host: localhost',
      `Authorization: Basic ${Buffer.from('alice:').toString('base64')}`,
      'Cookie: AccessToken=alice',
      'X-API-Key: berth_alice',
    ].map((line): Asked => (id) => ({ target: get, lines: [line], body: body(id) })),
    ...['GET', 'PUT', 'DELETE', 'HEAD', 'PATCH', 'OPTIONS'].map((method): Asked => (id) => ({
      target: get,
      method,
      body: body(id),
    })),
    ...['GET', 'HEAD', 'PUT', 'DELETE'].map((method): Asked => (id) => ({
      target: BASE_PATH + fileUrl(id === alice.instanceId ? alice.volumeId : randomUUID(), 'a'),
      method,
    })),
    (id) => ({
      target: `${BASE_PATH}/storage/volume/${mallory.volumeId}%2f..%2f${id === alice.instanceId ? alice.volumeId : randomUUID()}/files/a`,
      method: 'GET',
    }),
    (id) => ({
      target: BASE_PATH + fileUrl(mallory.volumeId, `../${id === alice.instanceId ? alice.volumeId : randomUUID()}/a`),
      method: 'GET',
    }),
  ];
  const nobody = never();
  const ask = async (attempt: Asked, id: string, auth: readonly string[]): Promise<string> => {
    const { target, lines = [], body: sent = '', method = 'POST' } = attempt(id);
    const host = lines.some((line) => line.startsWith('Host:')) ? [] : [`Host: 127.0.0.1:${apiPort}`];
    const head = [
      ...host,
      ...auth,
      ...lines,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(sent)}`,
      'Connection: close',
    ];
    return (await exchange(apiPort, `${method} ${target} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${sent}`)) ?? 'no end';
  };
  const plainly = (answer: string): string =>
    answer
      .replaceAll(new RegExp(`${alice.instanceId}|${nobody}`, 'gi'), 'x')
      .replaceAll(/^(date|x-request-id):.*$/gim, '')
      .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, 'y');
  const auth = [`Authorization: Bearer ${mallory.token}`];
  for (const attempt of attempts) {
    const [theirs, nobodys] = [await ask(attempt, alice.instanceId, auth), await ask(attempt, nobody, auth)];
    const what = JSON.stringify(attempt('x'));
    expect([what, plainly(theirs)]).toEqual([what, plainly(nobodys)]);
    for (const name of ['operationId', 'shareId', 'token'] as const)
      expect([what, theirs.includes(hers[name] ?? '')]).toEqual([what, false]);
  }
  const asAlice = [`Authorization: Bearer ${alice.token}`];
  expect(await ask((id) => ({ target: get, body: body(id) }), alice.instanceId, asAlice)).toMatch(
    new RegExp(`^HTTP/1\\.1 200 [^]*${alice.instanceId}`),
  );
});

/**
 * GET routes with an instance in the query, streams and WebSockets: `/instance/…`. All of the
 * document must be listed.
 */
const gets: Readonly<Record<string, { more: string; protocol?: string }>> = {
  '/instance/exec': { more: '&command=true', protocol: EXEC_PROTOCOL },
  '/instance/logs': { more: '&source=console' },
  '/instance/terminal': { more: '&terminal=one', protocol: TERMINAL_PROTOCOL },
};

test('the API: streams and WebSockets of an instance open for its owner only', async () => {
  const document: { paths: Record<string, { get?: { parameters?: { name: string }[] } }> } = JSON.parse(
    await (await fetch(`${server.apiUrl}${BASE_PATH}/openapi.json`)).text(),
  );
  const found = Object.entries(document.paths).filter(([, { get }]) =>
    get?.parameters?.some(({ name }) => name === 'instanceId'),
  );
  expect(found.map(([path]) => path).toSorted()).toEqual(Object.keys(gets));
  const nobody = never();
  for (const [path, { more, protocol }] of Object.entries(gets)) {
    const isSocket = protocol !== undefined;
    const ask = async (id: string, auth: readonly string[], isSwitch: boolean, headOnly = false): Promise<string> => {
      const at = { host: `127.0.0.1:${apiPort}`, path: `${BASE_PATH}${path}?instanceId=${id}${more}` };
      const bytes = isSwitch ? upgrade(at, [...auth, `Sec-WebSocket-Protocol: ${protocol}`]) : plain(at, auth);
      const answer = await exchange(apiPort, bytes, { headOnly });
      return (answer ?? 'no end').replaceAll(id, 'x').replaceAll(/^(date|x-request-id):.*$/gim, '');
    };
    for (const auth of [[], ...Object.values(asMallory())]) {
      for (const isSwitch of isSocket ? [true, false] : [false]) {
        const theirs = await ask(alice.instanceId, auth, isSwitch);
        expect([path, theirs]).toEqual([path, expect.stringMatching(/^HTTP\/1\.1 4\d\d /)]);
        expect([path, theirs]).toEqual([path, await ask(nobody, auth, isSwitch)]);
      }
    }
    // Her own stream has no end.
    const hersToo = await ask(alice.instanceId, [`Authorization: Bearer ${alice.token}`], isSocket, true);
    expect([path, hersToo.slice(0, 13)]).toEqual([path, `HTTP/1.1 ${isSocket ? '101' : '200'} `]);
  }
});

test('Alice’s WebSocket stays open, and Mallory’s to the same path never opens', async () => {
  const url = `${server.gatewayUrl.replace('http', 'ws')}/notebook/${alice.instanceId}/api/kernels/x/channels`;
  const begin = (headers: Record<string, string>): Promise<number> =>
    new Promise((resolve, reject) => {
      const socket = new WebSocket(url, { headers });
      socket.on('open', () => {
        resolve(101);
        socket.close();
      });
      socket.on('unexpected-response', (_request, answer) => resolve(answer.statusCode ?? 0));
      socket.on('error', reject);
    });
  expect(await begin({ authorization: `Bearer ${alice.token}` })).toBe(101);
  expect(await begin({ authorization: `Bearer ${mallory.token}` })).toBe(404);
  expect(await begin({ 'x-api-key': mallory.apiKey })).toBe(404);
  expect(await begin({ cookie: `berth_gateway=${mallory.session}`, 'sec-fetch-site': 'none' })).toBe(404);
  expect(await begin({})).toBe(401);
});
