import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { defaultMoneyRules } from '../../../src/domain/money/money-ladder.ts';
import type { Capabilities } from '../../../src/engines/contract.ts';
import { masked, readConfig, VERSION } from '../../../src/main/config.ts';
import { typesOfMachines, typesThatFit, machinesOf, pricesOf } from '../../../src/main/first-run.ts';
import { foreignVariables } from '../../../src/main/unknown-settings.ts';
import { welcome } from '../../../src/main/welcome.ts';
import { isolated } from '../../fixtures/isolation.ts';

describe('the configuration', () => {
  test('has a default for everything', () => {
    const config = readConfig({});
    expect(config.listen).toEqual({ host: '127.0.0.1', port: 8080 });
    expect(config.gatewayListen).toEqual({ host: '127.0.0.1', port: 8081 });
    expect(config).toMatchObject({
      publicAddress: '127.0.0.1',
      engine: 'docker',
      nodePorts: { first: 30_000, last: 32_767 },
    });
  });

  test('treats an empty variable as unset', () => {
    expect(readConfig({ BERTH_ENGINE: '', BERTH_ADMIN_PASSWORD: '' })).toMatchObject({
      engine: 'docker',
      lostSecretsKey: null,
      adminPassword: null,
    });
  });

  test('refuses unknown variables of its own, and names the nearest setting', () => {
    const unknown = { BERTH_LISTN: '127.0.0.1:1', BERTH_WEATHER: 'fair', BERTH_ENGINE: 'podman', BERTHA: 'x' };
    expect(() => readConfig(unknown)).toThrow(
      /wrong:\n {2}BERTH_LISTN: is not a setting; did you mean BERTH_LISTEN\?\n {2}BERTH_WEATHER: is not a setting; docs\/reference\/settings.md lists all\n {2}BERTH_ENGINE: [^\n]*$/,
    );
    expect(() => readConfig({ BERTH_LISTN: '' })).not.toThrow();
  });

  test.each(Object.entries(foreignVariables))('accepts %s, which %s has', async (name, file) => {
    expect(() => readConfig({ [name]: 'x' })).not.toThrow();
    expect(await readFile(new URL(`../../../${file}`, import.meta.url), 'utf8')).toMatch(new RegExp(`\\b${name}\\b`));
  });

  test('takes the id of a lost key as the failed start prints it', () => {
    expect(readConfig({ BERTH_LOST_SECRETS_KEY: '0a1b2c3d' }).lostSecretsKey).toBe('0a1b2c3d');
    expect(() => readConfig({ BERTH_LOST_SECRETS_KEY: 'yes' })).toThrow(/must be the id of the lost key/);
  });

  test('joins API and gateway over TCP by three settings, which belong together and to two processes', () => {
    const link = {
      BERTH_LINK_LISTEN: '0.0.0.0:8082',
      BERTH_LINK_PEER: 'berth-link:8082',
      BERTH_LINK_SECRET_FILE: '/etc/berth/link/secret',
    };
    expect(readConfig({ BERTH_ROLE: 'gateway' }).link).toBeNull();
    expect(readConfig({ BERTH_ROLE: 'gateway', ...link }).link).toEqual({
      listen: { host: '0.0.0.0', port: 8082 },
      peer: { host: 'berth-link', port: 8082 },
      secretFile: '/etc/berth/link/secret',
    });
    expect(() => readConfig(link)).toThrow(/BERTH_ROLE: must be api or gateway, because BERTH_LINK_… joins/);
    for (const name of Object.keys(link))
      expect(() => readConfig({ BERTH_ROLE: 'api', ...link, [name]: undefined })).toThrow(`${name}: must be set`);
  });

  test('refuses to trust every address as a proxy', () => {
    expect(readConfig({ BERTH_TRUSTED_PROXIES: '192.0.2.1,10.0.0.0/8' }).trustedProxies).toHaveLength(2);
    for (const all of ['0.0.0.0/0', '192.0.2.1,::/0', '::ffff:0:0/96', '0:0::0/0'])
      expect(() => readConfig({ BERTH_TRUSTED_PROXIES: all })).toThrow(/PROXIES: must not be all addresses/);
  });

  test('reads paths and capacities of pools', () => {
    const { pools } = readConfig({
      BERTH_POOL: 'overcommit=2,thick=no',
      BERTH_POOL_HIGHSPEEDSTORAGE: 'path=/srv/fast, engine=directory, size=2000',
    });
    expect(pools).toEqual({
      default: { path: null, engine: null, sizeGB: null, overcommit: 2, thick: false },
      filesystem: null,
      highspeedstorage: { path: '/srv/fast', engine: 'directory', sizeGB: 2_000, overcommit: 1, thick: null },
    });
  });

  test('reads the list of lost disks, and refuses an invalid one', () => {
    expect(readConfig({ BERTH_LOST_DISKS: 'data/i-1, shared/u-1/r-1' }).lostDisks).toEqual([
      { kind: 'data', id: 'i-1' },
      { kind: 'shared', id: 'u-1/r-1' },
    ]);
    for (const text of ['volume/v-1', 'data/', 'i-1', 'data/a b'])
      expect(() => readConfig({ BERTH_LOST_DISKS: text })).toThrow(/BERTH_LOST_DISKS: must name disks as data/);
  });

  test('refuses half a certificate, an invalid domain, and roles without support in the simulated engine', () => {
    expect(() => readConfig({ BERTH_GATEWAY_TLS_CERT: '/cert' })).toThrow(
      /BERTH_GATEWAY_TLS_KEY: must be set, because BERTH_GATEWAY_TLS_CERT is set/,
    );
    expect(() => readConfig({ BERTH_GATEWAY_TLS_KEY: '/key' })).toThrow(
      /BERTH_GATEWAY_TLS_CERT: must be set, because BERTH_GATEWAY_TLS_KEY is set/,
    );
    expect(() => readConfig({ BERTH_API_TLS_CERT: '/cert' })).toThrow(
      /BERTH_API_TLS_KEY: must be set, because BERTH_API_TLS_CERT is set/,
    );
    expect(() => readConfig({ BERTH_GATEWAY_TLS_KEY: 'key' })).toThrow(/must be the absolute path of a PEM file/);
    expect(() => readConfig({ BERTH_DOMAIN: 'https://x/' })).toThrow(/BERTH_DOMAIN: must be the host name/);
    expect(() => readConfig({ BERTH_ROLE: 'api', BERTH_ENGINE: 'simulated' })).toThrow(
      /BERTH_ROLE: the simulated engine/,
    );
    expect(readConfig({ BERTH_ROLE: 'gateway' }).role).toBe('gateway');
    const cluster = { BERTH_ENGINE: 'kubernetes', BERTH_REGION_FILE: '/etc/berth/region.json' };
    expect(readConfig(cluster).regionFile).toBe('/etc/berth/region.json');
    expect(() => readConfig({ BERTH_ENGINE: 'kubernetes' })).toThrow(/BERTH_REGION_FILE: must be set/);
    expect(() => readConfig({ BERTH_REGION_FILE: '/x' })).toThrow(/BERTH_ENGINE=kubernetes/);
    expect(readConfig({ ...cluster, BERTH_ROLE: 'gateway' })).toMatchObject({ role: 'gateway', engine: 'kubernetes' });
  });

  test('reads the steps of accounts whose money ends, with 0 days for never, and refuses steps out of order', () => {
    const { archiveMs, deleteMs } = defaultMoneyRules;
    expect(readConfig({})).toMatchObject({ isBilled: true, moneyRules: { archiveMs, deleteMs } });
    expect(readConfig({ BERTH_BILLING: 'off' }).isBilled).toBe(false);
    const never = readConfig({ BERTH_MONEY_ARCHIVE_DAYS: '0', BERTH_MONEY_DELETE_DAYS: '0' }).moneyRules;
    expect(never).toEqual({ archiveMs: null, deleteMs: null });
    for (const [name, value] of [
      ['BERTH_BILLING', 'no'],
      ['BERTH_MONEY_ARCHIVE_DAYS', '0.5'],
      ['BERTH_MONEY_DELETE_DAYS', '7'],
    ] as const)
      expect(() => readConfig({ [name]: value }), name).toThrow(name);
  });

  test('reads limits of the gateway, with 0 for none', () => {
    expect(readConfig({}).gatewayLimits).toEqual({
      clientIdleMs: 600_000,
      instanceIdleMs: 0,
      tunnelIdleMs: 0,
      perPort: 1_024,
      perInstance: 4_096,
      connections: 20_000,
    });
    const set = {
      BERTH_GATEWAY_CLIENT_IDLE_SECONDS: '0',
      BERTH_GATEWAY_INSTANCE_IDLE_SECONDS: '90',
      BERTH_GATEWAY_WEBSOCKET_IDLE_SECONDS: '3600',
      BERTH_GATEWAY_PORT_REQUESTS: '10',
      BERTH_GATEWAY_INSTANCE_REQUESTS: '20',
      BERTH_GATEWAY_CONNECTIONS: '30',
    };
    expect(readConfig(set).gatewayLimits).toEqual({
      clientIdleMs: 0,
      instanceIdleMs: 90_000,
      tunnelIdleMs: 3_600_000,
      perPort: 10,
      perInstance: 20,
      connections: 30,
    });
  });

  test('reads addresses of both families', () => {
    expect(readConfig({ BERTH_LISTEN: '[::1]:80' }).listen).toEqual({ host: '::1', port: 80 });
    expect(readConfig({ BERTH_LISTEN: 'example.org:0' }).listen).toEqual({ host: 'example.org', port: 0 });
  });

  test.each([
    ['BERTH_LISTEN', '8080', /host:port/],
    ['BERTH_LISTEN', '127.0.0.1:99999', /host:port/],
    ['BERTH_LISTEN', '*:8080', /0\.0\.0\.0:PORT .*\[::\]:PORT/],
    ['BERTH_GATEWAY_LISTEN', '*:8081', /0\.0\.0\.0:PORT .*\[::\]:PORT/],
    ['BERTH_ENGINE', 'podman', /docker.*simulated/],
    ['BERTH_DATABASE_URL', 'mysql://x', /postgres:\/\//],
    ['BERTH_ADMIN_PASSWORD', 'short', /8 characters/],
    ['BERTH_POOL', 'path=disks', /absolute path/],
    ['BERTH_POOL', 'engine=ext4', /image-file/],
    ['BERTH_POOL', 'thick=maybe', /only these members/],
    ['BERTH_POOL', 'thick=yes,overcommit=2', /overcommit=2 allocates more than there is/],
    ['BERTH_POOL', 'thick=yes,engine=directory', /plain folders have no blocks/],
    ['BERTH_DISK_OVERCOMMIT', '0.5', />=1/],
    ['BERTH_DISK_RESERVE_PERCENT', '100', /<=90/],
    ['BERTH_ACCOUNT_POOL_PERCENT', '0', />=1/],
    ['BERTH_POOL_FILESYSTEM', 'size=2.5', /whole GB/],
    ['BERTH_POOL_FILESYSTEM', 'overcommit=0.5', /overcommit/],
    ['BERTH_POOL_HIGHSPEEDSTORAGE', 'paths=/srv', /only these members/],
    ['BERTH_POOL_HIGHSPEEDSTORAGE', 'size=1,size=2', /twice/],
    ['BERTH_SHARED_DISK_GB', '0', /1 to/],
    ['BERTH_NODE_PORTS', '2000-1000', /first-last/],
    ['BERTH_CPU_OVERCOMMIT', 'much', /number/],
    ['BERTH_GATEWAY_URL', 'gateway', /http/],
    [
      'BERTH_GATEWAY_URL',
      'https://example.org/gateway',
      /without a path, because programs make addresses .* host name or port/,
    ],
    ['BERTH_GATEWAY_URL', 'https://example.org/?a', /without a path/],
    ['BERTH_CORS_ORIGINS', 'https://example.org/page', /without a path/],
    ['BERTH_API_URL', 'https://example.org/a%20b', /such as https:\/\/example\.org\/berth/],
    ['BERTH_API_URL', 'https://example.org/berth?a', /such as https/],
    ['BERTH_API_URL', 'https://example.org/..', /such as https/],
    ['BERTH_API_URL', 'https://example.org/./berth/..', /such as https/],
    ['BERTH_API_URL', 'https://ann:x@example.org/berth', /without a login/],
    ['BERTH_GATEWAY_CLIENT_IDLE_SECONDS', '-1', /whole number from 0 \(no limit\) to 86400/],
    ['BERTH_GATEWAY_INSTANCE_IDLE_SECONDS', '2.5', /BERTH_GATEWAY_INSTANCE_IDLE_SECONDS/],
    ['BERTH_GATEWAY_PORT_REQUESTS', '0', /BERTH_GATEWAY_PORT_REQUESTS/],
    ['BERTH_ARCHIVE_REGISTRY', 'registry.example.org', /host\[:port\]\/path/],
    ['BERTH_ARCHIVE_REGISTRY', 'https://registry.example.org/berth', /host\[:port\]\/path/],
    ['BERTH_ARCHIVE_REGISTRY', 'berth/kept', /host\[:port\]\/path/],
    ['BERTH_ARCHIVE_REGISTRY_USERNAME', 'ada', /must be set, because/],
    ['BERTH_ARCHIVE_REGISTRY_PASSWORD', 'harbour', /must be set, because/],
    ['BERTH_DISK_RATES', '200', /\/dev\/sda=200,\/dev\/nvme0n1=500/],
    ['BERTH_DISK_RATES', '/dev/sda=0', /MB a second/],
    ['BERTH_DISK_RATES', '/dev/sda=1,/dev/sda=2', /each once/],
    ['BERTH_INSTANCE_CA', 'ca.pem', /absolute path of a PEM file/],
    ['BERTH_INSTANCE_PROXY', 'proxy.example.org:3128', /http:\/\/proxy\.example\.org:3128/],
    ['BERTH_INSTANCE_PROXY', 'https://proxy.example.org:3128', /must be the http URL/],
    ['BERTH_INSTANCE_PROXY', 'http://proxy.example.org', /with its port/],
    ['BERTH_INSTANCE_NO_PROXY', 'a b', /\.intern/],
    ['BERTH_INSTANCE_NO_PROXY', '.intern', /BERTH_INSTANCE_PROXY: must be set/],
    ['BERTH_INSTANCE_PIP_INDEX', 'pypi', /https:\/\/pypi\.example\.org\/simple/],
    ['BERTH_INSTANCE_APT_MIRROR', "http://a/'b", /http:\/\/mirror\.example\.org/],
    ['BERTH_INSTANCE_APT_MIRROR', 'http://ann:x@mirror.example.org', /http:\/\/mirror\.example\.org/],
    ['BERTH_INSTANCE_DNS', 'ns.example.org', /10\.0\.0\.53/],
    ['BERTH_CPUSETS', 'all', /on.*off/],
    ['BERTH_LXCFS', 'on', /auto.*off/],
    ['BERTH_SUDO', 'yes', /on.*off/],
    ['BERTH_RUNTIMES', 'runsc', /cpu\.1=runsc,gpu\.1=kata/],
    ['BERTH_RUNTIMES', 'cpu.1=runsc,cpu.1=kata', /each type once/],
    ['BERTH_USER_NAMESPACES', 'yes', /on.*off/],
    ['BERTH_DOCKER_INSIDE', 'privileged', /rootless.*nested.*off/],
    ['BERTH_STRAYS', 'kill', /report.*stop.*delete/],
    ['BERTH_STRAY_HOURS', '-1', />=0/],
  ])('refuses %s=%s, naming the variable and valid values', (name, value, right) => {
    const read = () => readConfig({ [name]: value });
    expect(read).toThrow(name);
    expect(read).toThrow(right);
  });

  test('names every invalid variable at once', () => {
    expect(() => readConfig({ BERTH_LISTEN: 'x', BERTH_ENGINE: 'y' })).toThrow(/BERTH_LISTEN[^]*BERTH_ENGINE/);
  });

  test('accepts a registry for root disks with or without a login, and refuses a login without a registry', () => {
    const registry = { BERTH_ARCHIVE_REGISTRY: '10.0.0.7:5000/berth' };
    const login = { BERTH_ARCHIVE_REGISTRY_USERNAME: 'ada', BERTH_ARCHIVE_REGISTRY_PASSWORD: 'harbour' };
    expect(readConfig({}).archiveRegistry).toBeNull();
    expect(readConfig(registry).archiveRegistry).toEqual({ prefix: '10.0.0.7:5000/berth', username: '', secret: '' });
    expect(readConfig({ ...registry, ...login }).archiveRegistry).toMatchObject({ username: 'ada', secret: 'harbour' });
    expect(() => readConfig(login)).toThrow(/BERTH_ARCHIVE_REGISTRY: must be set/);
  });

  test('gives instances rootless Docker by default', () => {
    expect(readConfig({}).dockerInside).toBe('rootless');
    expect(readConfig({ BERTH_DOCKER_INSIDE: 'nested' }).dockerInside).toBe('nested');
    expect(readConfig({ BERTH_DOCKER_INSIDE: 'off' }).dockerInside).toBeNull();
  });

  test('gives the named instance types their container runtime', () => {
    expect(readConfig({}).runtimes).toEqual({});
    const { runtimes } = readConfig({ BERTH_RUNTIMES: 'cpu.1=runsc, gpu.1=kata' });
    expect(runtimes).toEqual({ 'cpu.1': 'runsc', 'gpu.1': 'kata' });
    const machine = { cpuCores: 2, memoryMiB: 8_192, architecture: 'amd64', gpus: [] };
    expect(typesThatFit({ ...machine, runtimes }).map(({ name, runtime }) => [name, runtime])).toEqual([
      ['cpu.1', 'runsc'],
      ['cpu.2', undefined],
    ]);
  });

  test('limits reads and writes of each instance on the named devices', () => {
    expect(readConfig({}).diskRates).toEqual([]);
    expect(readConfig({ BERTH_DISK_RATES: '/dev/sda=200, /dev/mapper/data-1=50' }).diskRates).toEqual([
      { device: '/dev/sda', bytesPerSecond: 200_000_000 },
      { device: '/dev/mapper/data-1', bytesPerSecond: 50_000_000 },
    ]);
  });

  test('prints no secret', () => {
    const shown = JSON.stringify(
      masked(
        readConfig({
          BERTH_ADMIN_PASSWORD: 'very secret',
          BERTH_DATABASE_URL: 'postgres://ada:hidden@db/berth',
          BERTH_ARCHIVE_REGISTRY: 'registry.example.org/berth',
          BERTH_ARCHIVE_REGISTRY_USERNAME: 'ada',
          BERTH_ARCHIVE_REGISTRY_PASSWORD: 'concealed',
        }),
      ),
    );
    expect(shown).not.toMatch(/very secret|hidden|concealed/);
    expect(shown).toContain('postgres://ada:***@db/berth');
  });
});

describe('the first types', () => {
  const machine = (cores: number, gigabytes: number, gpus = 0) => ({
    cpuCores: cores,
    memoryMiB: gigabytes * 1024,
    architecture: 'amd64',
    gpus: Array.from({ length: gpus }, () => ({ name: 'H100' })),
  });

  test('fit the machine, and leave memory for the host', () => {
    expect(typesThatFit(machine(4, 8)).map(({ name, memoryGB }) => [name, memoryGB])).toEqual([
      ['cpu.1', 2],
      ['cpu.2', 4],
      ['cpu.4', 7],
    ]);
    expect(typesThatFit(machine(1, 1))).toMatchObject([{ name: 'cpu.1', memoryGB: 1 }]);
  });

  test('divide the machine by whole GPUs', () => {
    const gpu = typesThatFit(machine(16, 65, 2)).filter(({ gpuCount }) => gpuCount > 0);
    expect(gpu).toMatchObject([
      { name: 'gpu.1', gpuName: 'H100', gpuCount: 1, cpuCores: 7, memoryGB: 28 },
      { name: 'gpu.2', gpuName: 'H100', gpuCount: 2, cpuCores: 14, memoryGB: 56 },
    ]);
  });

  test('fit for all cards at once, with a CPU type as well', () => {
    for (const [cores, gigabytes, gpus] of [
      [4, 17, 1],
      [16, 125, 1],
      [24, 97, 3],
      [192, 2049, 8],
    ] as const) {
      const types = typesThatFit(machine(cores, gigabytes, gpus));
      const [largestGpu, smallestCpu] = [types.at(-1), types[0]];
      const left = gigabytes - 1 - (largestGpu?.memoryGB ?? 0) * (gpus / (largestGpu?.gpuCount ?? 1));
      expect(left).toBeGreaterThanOrEqual(smallestCpu?.memoryGB ?? Infinity);
      expect((largestGpu?.cpuCores ?? 0) * (gpus / (largestGpu?.gpuCount ?? 1))).toBeLessThan(cores);
    }
  });

  test('are families of each model, with its price; the first has the short names', () => {
    const gpus = ['NVIDIA H200', 'NVIDIA L4', 'NVIDIA L4', 'Radeon Pro W7900'].map((name) => ({ name }));
    const types = typesThatFit({ ...machine(32, 129), gpus }).filter(({ gpuCount }) => gpuCount > 0);
    expect(types.map(({ name, gpuName, memoryGB }) => [name, gpuName, memoryGB])).toEqual([
      ['gpu.1', 'NVIDIA H200', 28],
      ['l4.1', 'NVIDIA L4', 28],
      ['l4.2', 'NVIDIA L4', 56],
      ['radeon-pro-w7900.1', 'Radeon Pro W7900', 28],
    ]);
    expect(types.map(({ pricesMicros: { perHour } }) => perHour)).toEqual([3_340_000n, 590_000n, 1_180_000n, 940_000n]);
    const other = { ...machine(8, 33), gpus: [{ name: 'NVIDIA A10' }] };
    expect(typesOfMachines([{ ...machine(8, 33), gpus: [{ name: 'NVIDIA L4' }] }, other], {}).slice(-2)).toMatchObject([
      { name: 'gpu.1', gpuName: 'NVIDIA L4' },
      { name: 'a10.1', gpuName: 'NVIDIA A10' },
    ]);
  });

  test('have the price of their model wherever its name has it', () => {
    const priceOf = (name: string) =>
      typesThatFit({ ...machine(2, 9), gpus: [{ name }] }).at(-1)?.pricesMicros.perHour ?? expect.fail('no type');
    const model = (perHour: number) => BigInt(Math.round((perHour + 0.02) * 1_000_000));
    for (const [name, perHour] of [
      ['Tesla T4', 0.3],
      ['Tesla V100-SXM2-16GB', 0.5],
      ['NVIDIA GH200 480GB', 2],
      ['AMD INSTINCT MI300X OAM', 2],
      ['NVIDIA GeForce RTX 4090', 0.8],
    ] as const)
      expect(priceOf(name), name).toBe(model(perHour));
  });

  test('fit on one host, on a simulated machine of any size', () => {
    const types = typesThatFit(machine(1_000_000, 976_562, 64));
    expect(types.filter(({ cpuCores, memoryGB }) => cpuCores > 256 || memoryGB > 2048)).toEqual([]);
    expect(types.filter(({ gpuCount }) => gpuCount > 0)).toMatchObject([
      { name: 'gpu.1', cpuCores: 32, memoryGB: 256 },
      { name: 'gpu.2', cpuCores: 64, memoryGB: 512 },
      { name: 'gpu.4', cpuCores: 128, memoryGB: 1024 },
      { name: 'gpu.8', cpuCores: 256, memoryGB: 2048, pricesMicros: { perHour: 24_320_000n } },
    ]);
    // A single GPU in a large host gets most of it; ten share that.
    expect(typesThatFit(machine(128, 513, 1)).at(-1)).toMatchObject({ name: 'gpu.1', cpuCores: 112, memoryGB: 448 });
    expect(typesThatFit(machine(120, 501, 10)).at(-1)).toMatchObject({ name: 'gpu.8', cpuCores: 84, memoryGB: 350 });
  });

  test('have a price per charge mode, cheaper per hour the longer the term', () => {
    const { perHour, tidePerHour, perDay, perWeek, perMonth } = pricesOf(1);
    expect(perHour).toBe(1_000_000n);
    expect(tidePerHour).toBeLessThan(perHour);
    expect(perDay / 24n).toBeLessThan(perHour);
    expect(perWeek / 168n).toBeLessThan(perDay / 24n);
    expect(perMonth / 720n).toBeLessThan(perWeek / 168n);
  });

  test("are derived from the engine's machine", () => {
    const capabilities = {
      rootDiskLimit: 'none',
      keepsRootDisk: true,
      dockerInside: false,
      saveImage: true,
      gpus: true,
      dial: true,
      joinNetwork: true,
      listenUnix: true,
      processLimit: true,
      isolation: isolated,
      sizes: { processors: true, memory: true },
    } satisfies Capabilities;
    const capacity = { cpuMilli: 8000, memoryMiB: 16_384, gpus: { L4: 1 } };
    const probe = {
      version: 'x',
      capacity,
      devices: [{ kind: 'gpu' as const, name: 'L4', id: 'GPU-1' }],
      architecture: 'amd64',
      capabilities,
    };
    const gpus = [{ kind: 'gpu', name: 'L4', id: 'GPU-1' }];
    expect(machinesOf(probe)).toEqual([{ cpuCores: 8, memoryMiB: 16_384, architecture: 'amd64', gpus }]);
  });
});

describe('the welcome', () => {
  const at = { apiUrl: 'http://127.0.0.1:8080', gatewayUrl: 'http://g' };
  const adminPassword = { text: 'p4ss', file: '/f' };
  const usual = { isTerminal: true, dataFolder: '/var/lib/berth', engineTrouble: null };

  test('prints address, account and the command of a first launch, without a given password', () => {
    const text = welcome({ ...at, adminPassword }, usual);
    expect(text).toMatch(/:8080\/api\n[^]*password p4ss[^]*\/f[^]*\n {2}npm run first\n/);
    expect(welcome({ ...at, adminPassword: null }, usual)).not.toContain('p4ss');
  });

  test('names address and password file of another installation in the command', () => {
    const text = welcome({ ...at, apiUrl: 'http://a', adminPassword }, { ...usual, dataFolder: '/srv' });
    expect(text).toContain('\n  npm run first -- --api http://a --password-file /srv/admin-password\n');
  });

  test('says what to do instead of a launch while no engine answers', () => {
    const text = welcome({ ...at, adminPassword }, { ...usual, engineTrouble: 'this user may not access Docker' });
    expect(text).toMatch(/may not access Docker\n[^]*usermod -aG docker[^]*DOCKER_HOST=[^]*BERTH_ENGINE=simulated/);
    expect(text).not.toContain('npm run first');
  });

  test('names the file of the first password where no terminal shows it', () => {
    const text = welcome({ ...at, adminPassword }, { ...usual, isTerminal: false });
    expect(text).toContain('Account   admin; its password is in the file /f');
    expect(text).not.toContain('p4ss');
  });
});

test("the reported version is the package's", async () => {
  const { version }: { version: string } = JSON.parse(
    await readFile(new URL('../../../package.json', import.meta.url), 'utf8'),
  );
  expect(VERSION).toBe(version);
});

test('bounds of the stop policy are whole hours and minutes, and absent by default', () => {
  const unset = { maxRunMs: null, idleStopMs: null, saveRootDiskAfterMs: null, spotGraceMs: 120_000 };
  expect(readConfig({})).toMatchObject(unset);
  expect(readConfig({ BERTH_SAVE_ROOT_DISK_HOURS: '72' }).saveRootDiskAfterMs).toBe(72 * 3_600_000);
  expect(readConfig({ BERTH_SPOT_GRACE_SECONDS: '0' })).toMatchObject({ spotGraceMs: 0 });
  for (const given of ['-1', '541', 'soon'])
    expect(() => readConfig({ BERTH_SPOT_GRACE_SECONDS: given })).toThrow(/BERTH_SPOT_GRACE_SECONDS/);
  const set = readConfig({ BERTH_MAX_RUN_HOURS: '8', BERTH_IDLE_STOP_MINUTES: '30' });
  expect(set).toMatchObject({ maxRunMs: 8 * 3_600_000, idleStopMs: 30 * 60_000 });
  for (const bad of ['0', '-1', '1.5', 'long', '1e9']) {
    expect(() => readConfig({ BERTH_MAX_RUN_HOURS: bad })).toThrow(/BERTH_MAX_RUN_HOURS/);
    expect(() => readConfig({ BERTH_IDLE_STOP_MINUTES: bad })).toThrow(/BERTH_IDLE_STOP_MINUTES/);
  }
});

test('accounts may use registries of this host only if the operator allows them', () => {
  expect(readConfig({})).toMatchObject({ localRegistries: false });
  expect(readConfig({ BERTH_LOCAL_REGISTRIES: 'allow' })).toMatchObject({ localRegistries: true });
  expect(() => readConfig({ BERTH_LOCAL_REGISTRIES: 'yes' })).toThrow(/BERTH_LOCAL_REGISTRIES/);
});
