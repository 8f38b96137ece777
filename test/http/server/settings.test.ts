/**
 * Settings whose effect only the whole program shows: TLS of the API, limits of the gateway, the
 * warnings of a shared domain, of trusted instances and of ports without a listener.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CLIENT, startProvider, type TestProvider } from '../../fixtures/login-provider.ts';
import { startServerProcess, until, PASSWORD, type ServerProcess } from '../../fixtures/server-process.ts';

const files = { folder: '', cert: '', key: '' };
let loginProvider: TestProvider;

let server: ServerProcess;
beforeAll(async () => {
  files.folder = await mkdtemp(join(tmpdir(), 'berth-e2e-tls-'));
  files.cert = join(files.folder, 'cert.pem');
  files.key = join(files.folder, 'key.pem');
  await write('first.test');
  await writeFile(join(files.folder, 'secret'), CLIENT.client_secret);
  loginProvider = await startProvider('https://berth.example.org/api/user/oidc/callback');
  server = await startServerProcess({
    nodePorts: '32300-32309',
    settings: {
      BERTH_ENGINE: 'simulated',
      BERTH_API_TLS_CERT: files.cert,
      BERTH_API_TLS_KEY: files.key,
      BERTH_DOMAIN: '*.gpu.example.org',
      BERTH_GATEWAY_URL: 'https://gpu.example.org:9283',
      BERTH_API_URL: 'https://berth.example.org',
      BERTH_TRUSTED_PROXIES: '192.0.2.1,10.0.0.0/8',
      BERTH_GATEWAY_CLIENT_IDLE_SECONDS: '1',
      BERTH_OIDC_ISSUER: `${loginProvider.issuer}/realms/none`,
      BERTH_OIDC_CLIENT_ID: CLIENT.client_id,
      BERTH_OIDC_CLIENT_SECRET_FILE: join(files.folder, 'secret'),
      BERTH_OIDC_EMAIL_DOMAINS: 'example.org',
    },
  });
});
afterAll(async () => {
  await server?.stop();
  await loginProvider?.stop();
  await rm(files.folder, { recursive: true });
});

async function write(name: string): Promise<void> {
  const { cert, private: key } = await generate([{ name: 'commonName', value: name }], { keyType: 'ec' });
  await writeFile(files.key, key);
  await writeFile(files.cert, cert);
}

interface Answer {
  cookie: string | undefined;
  json: Record<string, unknown>;
  shownAs: string;
}

const post = (path: string, body: object, token?: string): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    const url = `${server.apiUrl.replace('http:', 'https:')}/api${path}`;
    const asked = request(url, { method: 'POST', rejectUnauthorized: false, agent: false, headers }, (res) => {
      const { socket } = asked;
      const certificate =
        socket && 'getPeerCertificate' in socket && typeof socket.getPeerCertificate === 'function'
          ? socket.getPeerCertificate()
          : null;
      let text = '';
      res.on('data', (piece: Buffer) => (text += piece.toString()));
      res.on('end', () =>
        resolve({
          cookie: res.headers['set-cookie']?.[0],
          json: JSON.parse(text),
          shownAs: String(certificate?.subject.CN),
        }),
      );
    });
    asked.on('error', reject);
    asked.end(JSON.stringify(body));
  });

const credentials = { username: 'admin', password: PASSWORD };

test('the API serves TLS with a Secure cookie, and loads a renewed certificate', async () => {
  const { cookie, shownAs } = await post('/user/login', credentials);
  expect(cookie).toMatch(/; Secure$/);
  expect(shownAs).toBe('first.test');
  await write('second.test');
  await until(
    // Not a login: logins of an account are limited.
    async () => (await post('/user/info', {})).shownAs,
    (name) => name === 'second.test',
  );
  // The line of the log may come after the connection.
  await until(
    async () => server.output(),
    (output) => output.includes('loaded a new certificate'),
  );
});

test('the API answers under its names only; the page of its URL may use the cookie', async () => {
  const { cookie = '' } = await post('/user/login', credentials);
  const statusOf = (headers: Record<string, string>): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const url = `${server.apiUrl.replace('http:', 'https:')}/api/user/info`;
      const mine = { cookie: cookie.split(';', 1)[0], 'content-length': '0', ...headers };
      const asked = request(url, { method: 'POST', rejectUnauthorized: false, agent: false, headers: mine }, (reply) =>
        resolve(reply.resume().statusCode),
      );
      asked.on('error', reject).end();
    });
  const name = 'berth.example.org';
  expect(await statusOf({})).toBe(200);
  expect(await statusOf({ host: name, origin: `https://${name}` })).toBe(200);
  expect(await statusOf({ host: name, origin: `http://${name}` })).toBe(403);
  expect(await statusOf({ host: 'evil.test', origin: 'https://evil.test' })).toBe(421);
});

test('warns about a domain shared by the API and hosts of ports', () => {
  expect(server.output()).toMatch(/"domain":"example\.org".*pages on hosts of ports can set cookies for example\.org/);
});

test('warns about trusted proxies that contain the networks of instances', () => {
  expect(server.output()).toMatch(
    /"ranges":\["10\.0\.0\.0\/8"\].*BERTH_TRUSTED_PROXIES contains addresses of instances/,
  );
});

test('says in the log and on the health page what is wrong with the login provider', async () => {
  const why = /\/realms\/none\/\.well-known\/openid-configuration answers 404: check BERTH_OIDC_ISSUER/;
  const shown = await until(
    () =>
      new Promise<string>((resolve, reject) => {
        const url = `${server.apiUrl.replace('http:', 'https:')}/readyz`;
        const asked = request(url, { rejectUnauthorized: false, agent: false }, (reply) => {
          text(reply).then(resolve, reject);
        });
        asked.on('error', reject).end();
      }),
    (answer) => why.test(answer),
  );
  expect(JSON.parse(shown)).toMatchObject({ ready: true, status: 'degraded' });
  expect(server.output()).toMatch(why);
});

test('closes a stalled client of the gateway after the configured time', async () => {
  const token = String((await post('/user/login', credentials)).json['accessToken']);
  const pager = { currentPage: 1, pageSize: 1 };
  const { json: listed } = await post('/image/list', { pager }, token);
  const { json: catalog } = await post('/resource/user/instance/list', {}, token);
  const found = JSON.stringify(catalog);
  const { json: launched } = await post(
    '/instance/create',
    {
      name: 'listens',
      imageId: /"imageId":"([^"]+)"/.exec(JSON.stringify(listed))?.[1],
      instanceTypeId: /"instanceTypeId":"([^"]+)"/.exec(found)?.[1],
      region: /"regionId":"([^"]+)"/.exec(found)?.[1],
      billing: { chargeMode: 'perHour', duration: 1 },
      remoteStorages: [],
      instanceConfiguration: {
        enableCommonData: false,
        enableDocker: false,
        initScript: '# berth-sim: listen 7000 http\n',
      },
      nodePorts: [7000],
    },
    token,
  );
  const instanceId = String(launched['instanceId']);
  await until(
    async () => JSON.stringify((await post('/instance/get', { instanceId }, token)).json),
    (text) => text.includes('"status":"Running"'),
  );
  const opened = await post('/instance/open', { instanceId, port: 7000 }, token);
  const ownHost = `https://7000-${instanceId}.gpu.example.org:9283/`;
  expect(opened.json['url']).toMatch(new RegExp(`^${ownHost.replaceAll('.', '[.]')}[.]berth/open[?]key=`));
  const { port } = new URL(server.gatewayUrl);
  const text = await new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1');
    let got = '';
    socket.on('error', reject).on('data', (piece: Buffer) => (got += piece.toString('latin1')));
    socket.on('close', () => resolve(got));
    socket.write(
      `POST /forward/${instanceId}/7000/ HTTP/1.1\r\nHost: gpu.example.org\r\nContent-Length: 9\r\n\r\nhalf`,
    );
  });
  expect(text).toMatch(/^HTTP\/1\.1 408 /);
  expect(text).toContain('the client sent nothing of its request for 1 s');
});

test('a start warns of a port that links lead to and the gateway does not listen on', async () => {
  const settings = { BERTH_ENGINE: 'simulated', BERTH_GATEWAY_URL: 'https://gpu.example.org:9283' };
  const started = await startServerProcess({ nodePorts: '32390-32399', settings });
  await started.stop();
  const { port } = new URL(started.gatewayUrl);
  expect(started.output()).toContain(`lead to port 9283, but the gateway listens on port ${port}`);
  expect(started.output().match(/BERTH_DOMAIN has no wildcard/g)).toHaveLength(1);
  expect(server.output()).not.toContain('BERTH_DOMAIN has no wildcard');
});

test('a start names a disk rate whose device is no block device', async () => {
  const settings = { BERTH_DISK_RATES: '/dev/null=5' };
  await expect(startServerProcess({ nodePorts: '32380-32389', settings })).rejects.toThrow(
    /BERTH_DISK_RATES: \/dev\/null is no block device of this machine/,
  );
});
