import { hostname } from 'node:os';
import { describe, expect, test } from 'vitest';
import {
  addressesOf,
  apiHostsOf,
  nodePortAddressOf,
  openUrl,
  passwordUrl,
  portUrls,
  sharedParent,
  shareUrl,
  unservedPorts,
} from '../../../src/main/public-addresses.ts';
import { readConfig } from '../../../src/main/config.ts';

const ports = { api: 8080, gateway: 8081 };

describe('the announced address', () => {
  test('is the listening address', () => {
    expect(addressesOf(readConfig({}), { api: 1, gateway: 2 })).toEqual({
      apiUrl: 'http://127.0.0.1:1',
      gatewayUrl: 'http://127.0.0.1:2',
      domain: '127.0.0.1:2',
      portDomain: null,
    });
  });

  test('is the public address when listening on every address', () => {
    const config = readConfig({
      BERTH_LISTEN: '0.0.0.0:8080',
      BERTH_GATEWAY_LISTEN: '0.0.0.0:8081',
      BERTH_PUBLIC_ADDRESS: '192.0.2.7',
    });
    expect(addressesOf(config, ports)).toEqual({
      apiUrl: 'http://192.0.2.7:8080',
      gatewayUrl: 'http://192.0.2.7:8081',
      domain: '192.0.2.7:8081',
      portDomain: null,
    });
  });

  test('is the configured address', () => {
    const config = readConfig({
      BERTH_DOMAIN: 'notebooks.example',
      BERTH_GATEWAY_URL: 'https://notebooks.example/',
      BERTH_API_URL: 'https://berth.example',
    });
    expect(addressesOf(config, ports)).toEqual({
      apiUrl: 'https://berth.example',
      gatewayUrl: 'https://notebooks.example',
      domain: 'notebooks.example',
      portDomain: null,
    });
  });

  test("has a host per port below a wildcard domain, with the gateway's scheme", () => {
    const tls = { BERTH_GATEWAY_TLS_CERT: '/cert', BERTH_GATEWAY_TLS_KEY: '/key' };
    const reported = addressesOf(readConfig({ BERTH_DOMAIN: '*.GPU.example:8443', ...tls }), ports);
    expect(reported).toMatchObject({
      gatewayUrl: 'https://gpu.example:8443',
      domain: 'gpu.example:8443',
      portDomain: 'gpu.example:8443',
    });
    const link = { instanceId: 'notebook-1', key: 'k' };
    expect(openUrl(reported, { ...link, port: 80 })).toBe('https://80-notebook-1.gpu.example:8443/.berth/open?key=k');
    expect(openUrl(reported, { ...link, port: undefined })).toBe(
      'https://gpu.example:8443/open?key=k&to=%2Fnotebook%2Fnotebook-1%2F',
    );
    const onPaths = addressesOf(readConfig({}), ports);
    expect(openUrl(onPaths, { ...link, port: 80 })).toBe(
      'http://127.0.0.1:8081/open?key=k&to=%2Fforward%2Fnotebook-1%2F80%2F',
    );
    const back = (onOwnHost: boolean, path: string) =>
      openUrl(reported, { ...link, port: 80, back: { onOwnHost, path } });
    expect(back(true, '/x?y')).toBe('https://80-notebook-1.gpu.example:8443/.berth/open?key=k&to=%2Fx%3Fy');
    expect(back(false, '/forward/notebook-1/80/x')).toBe(
      'https://gpu.example:8443/open?key=k&to=%2Fforward%2Fnotebook-1%2F80%2Fx',
    );
  });

  test("gives hosts of ports the port of the gateway's URL", () => {
    const reported = addressesOf(
      readConfig({ BERTH_DOMAIN: '*.gpu.example.net', BERTH_GATEWAY_URL: 'https://gpu.example.net:9283' }),
      ports,
    );
    expect(reported).toMatchObject({
      gatewayUrl: 'https://gpu.example.net:9283',
      domain: 'gpu.example.net:9283',
      portDomain: 'gpu.example.net:9283',
    });
    const at = { instanceId: 'notebook-1', port: 8000 };
    const host = 'https://8000-notebook-1.gpu.example.net:9283/';
    expect(openUrl(reported, { ...at, key: 'k' })).toBe(`${host}.berth/open?key=k`);
    expect(shareUrl(reported, { ...at, token: 't' })).toBe(`${host}?berth_share=t`);
    expect(portUrls(reported, at).host).toBe(host);
  });

  test.each([
    [{ BERTH_DOMAIN: 'gpu.example', BERTH_GATEWAY_URL: 'https://gpu.example:9283' }, 'gpu.example:9283'],
    [{ BERTH_DOMAIN: 'gpu.example:9283', BERTH_GATEWAY_URL: 'https://gpu.example' }, 'gpu.example:9283'],
    [{ BERTH_DOMAIN: 'gpu.example', BERTH_GATEWAY_URL: 'https://gpu.example:443' }, 'gpu.example'],
    [{ BERTH_GATEWAY_URL: 'https://gpu.example:9283' }, 'gpu.example:9283'],
  ])('gives the region the domain for %j: %s', (settings, domain) => {
    expect(addressesOf(readConfig(settings), ports).domain).toBe(domain);
  });

  test("must be set when it can't be derived", () => {
    expect(() => readConfig({ BERTH_LISTEN: '0.0.0.0:8080' })).toThrow(/BERTH_PUBLIC_ADDRESS: must be set/);
    expect(() => readConfig({ BERTH_LISTEN: '[::]:8080' })).toThrow(/BERTH_PUBLIC_ADDRESS: must be set/);
  });
});

test("a port's address is below the gateway’s, or a host of its own with a wildcard domain", () => {
  const at = { instanceId: 'notebook-x', port: 8000 };
  const plain = addressesOf(readConfig({}), ports);
  expect(portUrls(plain, at)).toEqual({ path: 'http://127.0.0.1:8081/forward/notebook-x/8000/', host: null });
  expect(shareUrl(plain, { ...at, token: 't' })).toBe('http://127.0.0.1:8081/forward/notebook-x/8000/?berth_share=t');
  const wild = addressesOf(
    readConfig({ BERTH_DOMAIN: '*.gpu.example', BERTH_GATEWAY_URL: 'https://gpu.example' }),
    ports,
  );
  expect(portUrls(wild, at)).toEqual({
    path: 'https://gpu.example/forward/notebook-x/8000/',
    host: 'https://8000-notebook-x.gpu.example/',
  });
  expect(shareUrl(wild, { ...at, token: 't' })).toBe('https://8000-notebook-x.gpu.example/?berth_share=t');
});

test('finds ports of links that the gateway does not listen on, unless a proxy is named', () => {
  const found = (settings: Record<string, string>): number[] => {
    const config = readConfig(settings);
    return unservedPorts(addressesOf(config, ports), config, ports.gateway);
  };
  const url = { BERTH_GATEWAY_URL: 'https://gpu.example' };
  expect(found({})).toEqual([]);
  expect(found(url)).toEqual([443]);
  expect(found({ ...url, BERTH_TRUSTED_PROXIES: '192.0.2.1' })).toEqual([]);
  expect(found({ BERTH_GATEWAY_URL: 'https://gpu.example:8081' })).toEqual([]);
  expect(found({ BERTH_DOMAIN: '*.gpu.example' })).toEqual([80]);
  expect(found({ BERTH_DOMAIN: '*.gpu.example:8082', ...url })).toEqual([443, 8082]);
  const inCluster = { BERTH_ENGINE: 'kubernetes', BERTH_REGION_FILE: '/etc/berth/region.json' };
  expect(found({ ...url, ...inCluster })).toEqual([]);
});

test('publishes node ports on an IP address for any host name that the server listens on', async () => {
  const named = readConfig({ BERTH_LISTEN: 'localhost:8080', BERTH_PUBLIC_ADDRESS: 'localhost' });
  expect(await nodePortAddressOf(named)).toMatch(/^(127\.0\.0\.1|::1)$/);
  const any = readConfig({ BERTH_LISTEN: '0.0.0.0:1', BERTH_PUBLIC_ADDRESS: 'x' });
  expect(await nodePortAddressOf(any)).toBe('0.0.0.0');
  expect(await nodePortAddressOf(readConfig({ BERTH_NODE_PORT_ADDRESS: '127.0.0.2' }))).toBe('127.0.0.2');
});

test('finds a parent domain of API and port hosts, for which pages of ports could set cookies', () => {
  const shared = (apiUrl: string, portDomain: string | null) => sharedParent({ apiUrl, portDomain });
  expect(shared('https://berth.example.org', 'gpu.example.org')).toBe('example.org');
  expect(shared('https://gpu.example.org:8080', 'gpu.example.org:8443')).toBe('gpu.example.org');
  expect(shared('https://api.gpu.example.org', 'gpu.example.org')).toBe('gpu.example.org');
  expect(shared('https://example.org', 'gpu.example.org')).toBe('example.org');
  expect(shared('https://berth.example.co.uk', 'gpu.example.co.uk')).toBe('example.co.uk');
  for (const [apiUrl, portDomain] of [
    ['https://berth.example.org', 'gpu.example.net'],
    ['https://berth.org', 'gpu.example.org'],
    ['https://berth.co.uk', 'gpu.co.uk'],
    ['http://127.0.0.1:8080', 'gpu.example.org'],
    ['http://[::1]:8080', 'gpu.example.org'],
    ['http://localhost:8080', 'localhost:8081'],
    ['http://192.0.2.7', '192.0.2.7'],
    ['https://berth.example.org', null],
  ] as const)
    expect(shared(apiUrl, portDomain), `${apiUrl} ${portDomain}`).toBe(null);
});

test("the API's address has its scheme", () => {
  const tls = { BERTH_API_TLS_CERT: '/cert', BERTH_API_TLS_KEY: '/key' };
  expect(addressesOf(readConfig(tls), ports).apiUrl).toBe('https://127.0.0.1:8080');
  expect(addressesOf(readConfig({ ...tls, BERTH_API_URL: 'http://berth.example' }), ports).apiUrl).toBe(
    'http://berth.example',
  );
});

test("node ports are not on the API's host when that is loopback, so browsers send no login to instances", async () => {
  // Other systems have one loopback address only.
  const apart = process.platform === 'linux' ? '127.0.0.2' : '127.0.0.1';
  expect(await nodePortAddressOf(readConfig({}))).toBe(apart);
  // A configured public address is taken as given.
  expect(await nodePortAddressOf(readConfig({ BERTH_PUBLIC_ADDRESS: '192.0.2.7' }))).toBe('127.0.0.1');
  expect(await nodePortAddressOf(readConfig({ BERTH_LISTEN: '192.0.2.7:8080' }))).toBe('192.0.2.7');
});

test('the API answers under its addresses, the name of the machine and the configured names', () => {
  const config = readConfig({
    BERTH_LISTEN: 'Box.lan:8080',
    BERTH_PUBLIC_ADDRESS: 'public.example',
    BERTH_API_URL: 'https://berth.example.:8443',
    BERTH_API_HOSTS: 'berth, API.internal.',
  });
  expect(apiHostsOf(config)).toEqual([
    'box.lan',
    'public.example',
    hostname().toLowerCase(),
    'berth.example',
    'berth',
    'api.internal',
  ]);
  for (const bad of ['a:80', 'https://a', 'a,,b', '*.a', 'a b'])
    expect(() => readConfig({ BERTH_API_HOSTS: bad })).toThrow(/BERTH_API_HOSTS[^]*without ports/);
});

test('pages of listed origins may call the API; a path or a star is no origin', () => {
  expect(readConfig({}).corsOrigins).toEqual([]);
  const given = 'https://a.example, http://localhost:3000';
  expect(readConfig({ BERTH_CORS_ORIGINS: given }).corsOrigins).toEqual(['https://a.example', 'http://localhost:3000']);
  for (const bad of ['*', 'a.example', 'null', 'file:///x', 'https://a.example,'])
    expect(() => readConfig({ BERTH_CORS_ORIGINS: bad }), bad).toThrow(/BERTH_CORS_ORIGINS/);
});

test('the API may be below a path, which its links keep', () => {
  for (const given of ['https://example.org/berth', 'https://example.org/berth/', 'HTTPS://Example.org/berth//']) {
    const config = readConfig({ BERTH_API_URL: given });
    expect(config.apiUrl).toBe('https://example.org/berth');
    const { apiUrl } = addressesOf(config, { api: 8080, gateway: 8081 });
    expect(passwordUrl({ apiUrl }, 't')).toBe('https://example.org/berth/password?token=t');
  }
  expect(readConfig({ BERTH_API_URL: 'https://example.org:443/' }).apiUrl).toBe('https://example.org');
});
