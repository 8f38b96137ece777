/** Certificates of ssh-keygen, offered by OpenSSH's client to the built-in server. */
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { acceptedCertificate } from '../../../src/edge/ssh/certificate.ts';
import { makeSecurityKey } from '../../fixtures/security-key.ts';
import { openFixture, type SshFixture } from './ssh-fixture.ts';

const run = promisify(execFile);
let folder: string;
let userKey: string;
const authorities = new Map<string, string>();

async function makeKey(name: string, ...args: string[]): Promise<string> {
  const file = join(folder, name);
  await run('ssh-keygen', ['-q', '-N', '', '-C', name, '-f', file, ...args]);
  return file;
}

const blobOf = async (file: string): Promise<string> => (await readFile(`${file}.pub`, 'utf8')).split(' ')[1] ?? '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'berth-certificates-'));
  userKey = await makeKey('user', '-t', 'ed25519');
  for (const type of ['ed25519', 'ecdsa']) authorities.set(type, await makeKey(`ca-${type}`, '-t', type));
  authorities.set('rsa', await makeKey('ca-rsa', '-t', 'rsa', '-b', '3072'));
  return () => rm(folder, { recursive: true });
});

async function fixtureOf(type = 'ed25519'): Promise<{ fixture: SshFixture; authority: string }> {
  const fixture = await openFixture([], { checkEveryMs: 50 });
  const authority = authorities.get(type) ?? '';
  fixture.identity.authorities = [await blobOf(authority)];
  return { fixture, authority };
}

let made = 0;
/** A key with a certificate beside it, as ssh finds it. */
async function certify(authority: string, args: string[], key = userKey): Promise<string> {
  const file = join(folder, `certified-${(made += 1)}`);
  // Only the agent has the key of a security key.
  await copyFile(key, file).catch(() => {});
  await copyFile(`${key}.pub`, `${file}.pub`);
  await run('ssh-keygen', ['-q', '-s', authority, '-I', 'anna@laptop', ...args, `${file}.pub`]);
  return file;
}

async function ssh({ port }: SshFixture, file: string, more: string[] = []): Promise<string> {
  const options = [
    ...more,
    'StrictHostKeyChecking=no',
    'UserKnownHostsFile=/dev/null',
    'BatchMode=yes',
    'IdentitiesOnly=yes',
  ];
  const args = ['-F', 'none', '-i', file, '-p', String(port()), ...options.flatMap((option) => ['-o', option])];
  const { stdout } = await run('ssh', [...args, 'root@127.0.0.1', 'echo opened'], { timeout: 20_000 });
  return stdout.trim();
}

const refused = { stderr: expect.stringContaining('Permission denied') };

describe('certificates', () => {
  test.each(['ed25519', 'ecdsa', 'rsa'])('open an instance, signed by an authority with a key of %s', async (type) => {
    const { fixture, authority } = await fixtureOf(type);
    for (const principal of ['root', 'alice'])
      expect(await ssh(fixture, await certify(authority, ['-n', `x,${principal}`, '-V', '-1m:+5m']))).toBe('opened');
  });

  test.each([
    ['ecdsa', '521'],
    ['rsa', '3072'],
  ])('open an instance for a key of %s', async (type, bits) => {
    const { fixture, authority } = await fixtureOf();
    const key = await makeKey(`user-${type}`, '-t', type, '-b', bits);
    expect(await ssh(fixture, await certify(authority, ['-n', 'root'], key))).toBe('opened');
  });

  test.each(['ed25519', 'P-256'] as const)('open an instance by a touch of a security key of %s', async (curve) => {
    const { fixture, authority } = await fixtureOf();
    const key = await makeSecurityKey(curve, join(folder, `agent-${curve}`));
    const file = join(folder, `security-key-${curve}`);
    await writeFile(`${file}.pub`, key.publicKey);
    const certified = await certify(authority, ['-n', 'root'], file);
    const agent = ['IdentitiesOnly=no', `IdentityAgent=${key.socket}`, `CertificateFile=${certified}-cert.pub`];
    expect(await ssh(fixture, certified, agent)).toBe('opened');
    key.touched = false;
    await expect(ssh(fixture, certified, agent)).rejects.toMatchObject(refused);
    key.touched = true;
    fixture.identity.authorities = [];
    await expect(ssh(fixture, certified, agent)).rejects.toMatchObject(refused);
    key.stop();
  });

  test.each<[string, string[]]>([
    ['without principals', []],
    ['for another principal', ['-n', 'bob,ROOT']],
    ['that has expired', ['-n', 'root', '-V', '-2h:-1h']],
    ['that is not yet valid', ['-n', 'root', '-V', '+1h:+2h']],
    ['of a host', ['-n', 'root', '-h']],
    ['with a command', ['-n', 'root', '-O', 'force-command=/bin/true']],
    ['with client addresses', ['-n', 'root', '-O', 'source-address=127.0.0.0/8']],
    ['with an unknown critical option', ['-n', 'root', '-O', 'critical:x@example.org=1']],
    ['without the right to forward ports', ['-n', 'root', '-O', 'no-port-forwarding']],
    ['without any right', ['-n', 'root', '-O', 'clear']],
  ])('open nothing %s', async (_, args) => {
    const { fixture, authority } = await fixtureOf();
    await expect(ssh(fixture, await certify(authority, args))).rejects.toMatchObject(refused);
  });

  test('open nothing if another authority signed them, or the account has deleted its own', async () => {
    const { fixture, authority } = await fixtureOf();
    const foreign = await certify(authorities.get('ecdsa') ?? '', ['-n', 'root']);
    await expect(ssh(fixture, foreign)).rejects.toMatchObject(refused);
    const own = await certify(authority, ['-n', 'root']);
    expect(await ssh(fixture, own)).toBe('opened');
    // An authority opens nothing by itself.
    await expect(ssh(fixture, authority)).rejects.toMatchObject(refused);
    fixture.identity.authorities = [];
    await expect(ssh(fixture, own)).rejects.toMatchObject(refused);
  });

  test('are refused after a change of any byte', async () => {
    const { fixture, authority } = await fixtureOf();
    const file = await certify(authority, ['-n', 'root']);
    const text = await readFile(`${file}-cert.pub`, 'utf8');
    const blob = Buffer.from(text.split(' ')[1] ?? '', 'base64');
    const accepted = (bytes: Buffer) => acceptedCertificate(bytes, fixture.identity, Date.now());
    expect(accepted(blob)).toMatchObject({ authority: fixture.identity.authorities[0] });
    for (let at = 0; at < blob.length; at += 1) {
      const changed = Buffer.from(blob);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(accepted(changed), `byte ${at}`).toBeNull();
      expect(accepted(blob.subarray(0, at)), `cut at ${at}`).toBeNull();
    }
    expect(accepted(Buffer.concat([blob, Buffer.alloc(1)]))).toBeNull();
  });
});
