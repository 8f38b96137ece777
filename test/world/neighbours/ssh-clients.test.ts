/** Ssh clients of today and of Debian 12 at the built-in server. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { utils } from 'ssh2';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { unpackDebian13 } from '../../fixtures/debian13.ts';
import { bringsProgram } from '../../fixtures/programs.ts';
import { keyPair, openFixture } from '../../http/gateway/ssh-fixture.ts';

const run = promisify(execFile);
const mine = keyPair();
let folder = '';
let debian13: (name: string) => string[] = () => [];

beforeAll(async () => {
  bringsProgram('apt-get');
  folder = await mkdtemp(join(tmpdir(), 'berth-clients-'));
  debian13 = await unpackDebian13(folder, ['openssh-client/trixie-backports', 'dropbear-bin', 'putty-tools']);
  await writeFile(join(folder, 'key'), mine.private, { mode: 0o600 });
}, 240_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

const client = ([command = '', ...args]: string[]) =>
  run(command, args, { env: { ...process.env, HOME: folder }, timeout: 60_000 });

const openssh = (ssh: string[], port: number, options: string[] = []) =>
  client([
    ...ssh,
    '-v',
    '-i',
    join(folder, 'key'),
    '-p',
    String(port),
    ...['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes', ...options].flatMap((one) => [
      '-o',
      one,
    ]),
    'root@127.0.0.1',
    'echo hello',
  ]);

test('exchanges keys with OpenSSH 10.3 by ML-KEM, at the login and in the session', async () => {
  const { port } = await openFixture([mine]);
  const ssh = debian13('bin/ssh');
  expect((await client([...ssh, '-V'])).stderr).toContain('OpenSSH_10.3');
  const { stdout, stderr } = await openssh(ssh, port());
  expect(stdout).toBe('hello\n');
  expect(stderr).toContain('kex: algorithm: mlkem768x25519-sha256');
  const only = ['KexAlgorithms=mlkem768x25519-sha256', 'RekeyLimit=16'];
  expect((await openssh(ssh, port(), only)).stdout).toBe('hello\n');
});

test('logs OpenSSH of the system, dropbear 2025 and plink 0.83 in', async () => {
  const { port, identity } = await openFixture([mine]);
  expect((await openssh(['ssh'], port())).stdout).toBe('hello\n');
  const [key, dropbearKey, ppk] = ['key', 'key.dropbear', 'key.ppk'].map((name) => join(folder, name));
  if (!key || !dropbearKey || !ppk) throw new Error('no names of keys');
  const at = ['-p', String(port()), 'root@127.0.0.1', 'echo hello'];
  await client([...debian13('bin/dropbearconvert'), 'openssh', 'dropbear', key, dropbearKey]);
  expect((await client([...debian13('bin/dbclient'), '-y', '-y', '-i', dropbearKey, ...at])).stdout).toBe('hello\n');
  await client([...debian13('bin/puttygen'), key, '-O', 'private', '-o', ppk]);
  const host = utils.parseKey(identity.hostKey);
  if (host instanceof Error) throw host;
  const print = createHash('sha256').update(host.getPublicSSH()).digest('base64').replace(/=+$/, '');
  const plink = ['-batch', '-hostkey', `SHA256:${print}`, '-i', ppk, '-P', ...at.slice(1)];
  expect((await client([...debian13('bin/plink'), ...plink])).stdout).toBe('hello\n');
});
