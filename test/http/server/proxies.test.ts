/** Berth behind the proxies of Debian, with the shipped files and with usual mistakes. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { checkAllProxies, checkProxies, type ProxyFault } from '../../../src/contract/proxy-check.ts';
import { launchFirst } from '../../fixtures/first-launch.ts';
import { startFrontedServer, type Change, type FrontedServer, type ProxyName } from '../../fixtures/front-proxies.ts';
import { PASSWORD } from '../../fixtures/server-process.ts';

let fronted: FrontedServer;
beforeAll(async () => {
  fronted = await startFrontedServer({ nodePorts: '32675-32684' });
});
afterAll(() => fronted.stop());

const faultsAt = (url: string): Promise<ProxyFault[]> => checkProxies({ ...fronted, url });

test.each(['nginx', 'caddy', 'haproxy'] as const)('finds nothing wrong behind %s with its file', async (name) => {
  const { behind, apiUrl, gatewayUrl, portUrl, fetch } = fronted;
  await behind(name, async () => {
    expect(await Promise.all([apiUrl, gatewayUrl, portUrl].map((url) => faultsAt(url)))).toEqual([[], [], []]);
    const { accessToken } = await makeClient({ baseUrl: `${apiUrl}/api`, fetch }).login({
      username: 'admin',
      password: PASSWORD,
    });
    const headers = { cookie: `AccessToken=${accessToken}`, origin: apiUrl, 'content-type': 'application/json' };
    const info = await fetch(`${apiUrl}/api/user/info`, { method: 'POST', body: '{}', headers });
    expect(await info.json()).toMatchObject({ username: 'admin' });
  });
});

/** Of Caddy's file. */
const FLUSH = /flush_interval -1\n/g;

const mistakes: [string, ProxyName, Change, ProxyFault][] = [
  ['no Upgrade', 'nginx', [/ {4}proxy_set_header (?:Upgrade|Connection) .*\n/g, ''], { kind: 'webSocket' }],
  ['bodies of 1 MB', 'nginx', [/ {4}client_max_body_size 0;\n/g, ''], { kind: 'body', status: 413 }],
  [
    'compressed streams',
    'nginx',
    [/proxy_buffering off/g, 'proxy_buffering on; gzip on; gzip_types *'],
    { kind: 'stream' },
  ],
  ['another Host', 'nginx', [/ {4}proxy_set_header Host .*\n/g, ''], { kind: 'host', seen: 'berth_api' }],
  [
    'no scheme',
    'haproxy',
    [/ {4}http-request set-header X-Forwarded-Proto .*\n/, ''],
    { kind: 'scheme', seen: 'http' },
  ],
  [
    'headers of 8 KB',
    'nginx',
    [/ {4}large_client_header_buffers .*\n/g, ''],
    { kind: 'headers', status: expect.any(Number) },
  ],
  [
    'Forwarded beside the X-Forwarded-For of clients',
    'nginx',
    [/X-Forwarded-For .*;/g, 'Forwarded "for=$remote_addr;proto=$scheme";'],
    { kind: 'claim' },
  ],
  ['no address', 'haproxy', [/ {4}http-request set-header X-Forwarded-For .*\n/, ''], { kind: 'forwardedFor' }],
  [
    'another Host',
    'haproxy',
    ['backend berth_api\n', 'backend berth_api\n    http-request set-header Host berth_api\n'],
    { kind: 'host', seen: 'berth_api' },
  ],
  [
    'bodies of 1 MB',
    'haproxy',
    [
      'frontend berth\n',
      'frontend berth\n    http-request deny deny_status 413 if { req.hdr_val(content-length) gt 1048576 }\n',
    ],
    { kind: 'body', status: 413 },
  ],
  ['another Host', 'caddy', [FLUSH, 'header_up Host berth_api\n$&'], { kind: 'host', seen: 'berth_api' }],
  ['no address', 'caddy', [FLUSH, 'header_up -X-Forwarded-For\n$&'], { kind: 'forwardedFor' }],
  ['another scheme', 'caddy', [FLUSH, 'header_up X-Forwarded-Proto http\n$&'], { kind: 'scheme', seen: 'http' }],
  [
    'bodies of 1 MB',
    'caddy',
    [/reverse_proxy 127/g, 'request_body {\n\t\tmax_size 1MB\n\t}\n\t$&'],
    { kind: 'body', status: 502 },
  ],
];

test.each(mistakes)('names %s of %s', async (_what, name, change, fault) => {
  expect(await fronted.behind(name, () => faultsAt(fronted.apiUrl), { changes: [change] })).toEqual([fault]);
});

test('names a gateway that leads to the API, and the reverse', async () => {
  const { behind, apiUrl, gatewayUrl, portUrl, ports } = fronted;
  const check = () => checkAllProxies({ ...fronted, url: apiUrl });
  const toApi: ProxyFault[] = [{ kind: 'listener', seen: 'api' }];
  expect(await behind('nginx', check, { ports: { gateway: ports.api } })).toEqual([
    { url: apiUrl, faults: [] },
    { url: gatewayUrl, faults: toApi },
    { url: portUrl, faults: toApi },
  ]);
  const faults: ProxyFault[] = [{ kind: 'listener', seen: 'gateway' }, { kind: 'othersUnknown' }];
  expect(await behind('nginx', check, { ports: { api: ports.gateway } })).toEqual([{ url: apiUrl, faults }]);
});

test('says that nothing else is checked where a proxy refuses paths that begin with a dot', async () => {
  const { behind, apiUrl } = fronted;
  const noDots: Change = [/ {4}location \/ \{/g, '    location ~ /\\. { deny all; }\n    location / {'];
  const rows = await behind('nginx', () => checkAllProxies({ ...fronted, url: apiUrl }), { changes: [noDots] });
  expect(rows).toEqual([{ url: apiUrl, faults: [{ kind: 'foreign', status: 403 }, { kind: 'othersUnknown' }] }]);
});

test('tells an error of the proxy from one of the server', async () => {
  const { behind, apiUrl, fetch } = fronted;
  const info = (): Promise<unknown> =>
    makeClient({ baseUrl: `${apiUrl}/api`, fetch })
      .userInfo()
      .catch((error: unknown) => error);
  expect(await behind('nginx', info)).toMatchObject({ code: 'not_logged_in' });
  const away = await behind('nginx', () => Promise.all([info(), faultsAt(apiUrl)]), { ports: { api: 1 } });
  expect(away).toMatchObject([
    { code: 'proxy', status: 502, message: expect.stringContaining('did not reach it (502)') },
    [{ kind: 'foreign', status: 502 }],
  ]);
});

test('says that a proxy passes no WebSocket on', async () => {
  const { server, behind, ports } = fronted;
  const clientAt = (url: string, token?: string) =>
    makeClient({ baseUrl: `${url}/api`, ...(token === undefined ? {} : { credential: { kind: 'token', token } }) });
  const { accessToken } = await clientAt(server.apiUrl).login({ username: 'admin', password: PASSWORD });
  const { instanceId } = await launchFirst(clientAt(server.apiUrl, accessToken), { name: 'one' });
  const open = (url: string): Promise<unknown> =>
    clientAt(url, accessToken)
      .openTerminal({ instanceId, terminal: 'main', columns: 80, rows: 24 })
      .then(
        (viewer) => viewer.leave(),
        (error: unknown) => error,
      );
  expect(await open(server.apiUrl)).toBeUndefined();
  const plain: Change = [
    'return 308 https://$host$request_uri;',
    'location / { proxy_pass http://berth_api; proxy_set_header Host $http_host; }',
  ];
  const failure = await behind('nginx', () => open(`http://127.0.0.1:${ports.plain}`), { changes: [plain] });
  expect(failure).toMatchObject({ code: 'proxy', message: expect.stringContaining('Upgrade and Connection') });
});
