/** Ssh clients of today and of the system at the built-in server. */
import { execFile } from 'node:child_process';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { utils, type ParsedKey } from 'ssh2';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { unpackDebian } from '../../fixtures/debian-programs.ts';
import { bringsProgram } from '../../fixtures/programs.ts';
import { keyPair, openFixture, type KeyPair } from '../../http/gateway/ssh-fixture.ts';
import { findPython, openPython, type Python } from './python.ts';

const run = promisify(execFile);
const MLKEM = 'mlkem768x25519-sha256';
const parsed = (key: string): ParsedKey => {
  const found = utils.parseKey(key);
  if (found instanceof Error) throw found;
  return found;
};
const rsaText = generateKeyPairSync('rsa', {
  modulusLength: 3072,
  privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  publicKeyEncoding: { type: 'pkcs1', format: 'pem' },
}).privateKey;
const keys = {
  ed25519: keyPair(),
  rsa: { private: rsaText, blob: parsed(rsaText).getPublicSSH().toString('base64') },
} satisfies Record<string, KeyPair>;
let folder = '';
let debian: (name: string) => string[] = () => [];
let python: Python | undefined;
const keyFile = (kind: string): string => join(folder, kind);

beforeAll(async () => {
  bringsProgram('apt-get');
  folder = await mkdtemp(join(tmpdir(), 'berth-clients-'));
  debian = await unpackDebian(folder, 'forky', ['openssh-client', 'dropbear-bin', 'putty-tools']);
  for (const [kind, key] of Object.entries(keys)) await writeFile(keyFile(kind), key.private, { mode: 0o600 });
  const found = await findPython('3');
  if (found !== null) python = await openPython(found, ['paramiko==5.1.0', 'asyncssh==2.24.1']);
}, 900_000);
afterAll(async () => {
  await python?.remove();
  await rm(folder, { recursive: true, force: true });
});

const client = ([command = '', ...args]: string[]) =>
  run(command, args, { env: { ...process.env, HOME: folder }, timeout: 60_000 });

const COMMAND = ['root@127.0.0.1', 'echo hello'];

const openssh = (ssh: string[], port: number, options: string[] = []) =>
  client([
    ...ssh,
    '-i',
    keyFile('ed25519'),
    '-p',
    String(port),
    ...['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes', ...options].flatMap((one) => [
      '-o',
      one,
    ]),
    ...COMMAND,
  ]);

/** A port before the server, and the key exchange that the last client and the server agreed on. */
async function listenBefore(port: () => number) {
  let kex: string | undefined;
  const relay = createServer((socket) => {
    const server = connect(port(), '127.0.0.1');
    const [offered, known] = [kexOf(socket), kexOf(server)];
    void Promise.all([offered, known]).then(([ours, theirs]) => (kex = ours.find((one) => theirs.includes(one))));
    pipeline(socket, server, socket).catch(() => {});
  }).listen(0, '127.0.0.1');
  await once(relay, 'listening');
  onTestFinished(() => void relay.close());
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return { port: (relay.address() as AddressInfo).port, kex: () => kex };
}

/** Key exchanges of the first packet of a side, in its order. */
function kexOf(side: Socket): Promise<string[]> {
  const { promise, resolve } = Promise.withResolvers<string[]>();
  let bytes = Buffer.alloc(0);
  side.on('data', (more: Buffer) => {
    bytes = Buffer.concat([bytes, more]);
    // Identification line; then lengths of packet and padding, the message's number, a cookie.
    const lists = bytes.indexOf('\n') + 1 + 4 + 1 + 1 + 16;
    if (bytes.length < lists + 4) return;
    const end = lists + 4 + bytes.readUInt32BE(lists);
    if (bytes.length >= end) resolve(bytes.toString('latin1', lists + 4, end).split(','));
  });
  return promise;
}

const logins: Record<string, (port: number, host: Buffer) => Promise<{ stdout: string }>> = {
  'OpenSSH of the system': (port) => openssh(['ssh'], port),
  'OpenSSH 10.6': (port) => openssh(debian('bin/ssh'), port),
  async 'dropbear 2026'(port) {
    const key = keyFile('dropbear');
    await client([...debian('bin/dropbearconvert'), 'openssh', 'dropbear', keyFile('ed25519'), key]);
    return client([...debian('bin/dbclient'), '-y', '-y', '-i', key, '-p', String(port), ...COMMAND]);
  },
  async 'plink 0.85'(port, host) {
    const key = keyFile('ppk');
    await client([...debian('bin/puttygen'), keyFile('ed25519'), '-O', 'private', '-o', key]);
    const print = `SHA256:${createHash('sha256').update(host).digest('base64').replace(/=+$/, '')}`;
    const options = ['-batch', '-hostkey', print, '-i', key, '-P', String(port)];
    return client([...debian('bin/plink'), ...options, ...COMMAND]);
  },
};

test.each([
  ['OpenSSH of the system', /^(?:curve25519|mlkem768x25519)-sha256$/],
  ['OpenSSH 10.6', MLKEM],
  ['dropbear 2026', MLKEM],
  ['plink 0.85', MLKEM],
])('logs %s in', async (name, kex) => {
  const { port, identity } = await openFixture([keys.ed25519]);
  const before = await listenBefore(port);
  expect((await logins[name]?.(before.port, parsed(identity.hostKey).getPublicSSH()))?.stdout).toBe('hello\n');
  expect(before.kex()).toMatch(kex);
});

test('exchanges keys with OpenSSH 10.6 by ML-KEM again in the session', async () => {
  const { port } = await openFixture([keys.ed25519]);
  const ssh = debian('bin/ssh');
  expect((await client([...ssh, '-V'])).stderr).toContain('OpenSSH_10.6');
  const only = [`KexAlgorithms=${MLKEM}`, 'RekeyLimit=16'];
  expect((await openssh(ssh, port(), only)).stdout).toBe('hello\n');
});

/** They print the exit code and output of a command, and an echo; a file goes and comes back. */
const PROGRAMS = {
  paramiko: `
import os, sys, paramiko
folder, key, port, echo = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = paramiko.SSHClient()
client.load_host_keys(folder + "/known_hosts")
client.connect("127.0.0.1", port, "root", key_filename=key, allow_agent=False, look_for_keys=False)
stdin, stdout, _ = client.exec_command("cat; exit 3")
stdin.write("hello")
stdin.channel.shutdown_write()
said = stdout.read().decode()
with client.open_sftp() as sftp:
    sftp.put(folder + "/sent", folder + "/there")
    sftp.get(folder + "/there", folder + "/received")
forward = client.get_transport().open_channel("direct-tcpip", ("127.0.0.1", echo), ("127.0.0.1", 0))
forward.sendall(b"ping")
print(stdout.channel.recv_exit_status(), said, forward.recv(4).decode())
client.close()
`,
  asyncssh: `
import asyncio, sys, asyncssh
folder, key, port, echo = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
async def main():
    options = dict(username="root", client_keys=[key], known_hosts=folder + "/known_hosts", agent_path=None, config=[])
    async with asyncssh.connect("127.0.0.1", port, **options) as client:
        ran = await client.run("cat; exit 3", input="hello")
        async with client.start_sftp_client() as sftp:
            await sftp.put(folder + "/sent", folder + "/there")
            await sftp.get(folder + "/there", folder + "/received")
        listener = await client.forward_local_port("127.0.0.1", 0, "127.0.0.1", echo)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.get_port())
        writer.write(b"ping")
        print(ran.exit_status, ran.stdout, (await reader.readexactly(4)).decode())
        writer.close()
asyncio.run(main())
`,
};

test.for([
  ['paramiko', 'ed25519'],
  ['paramiko', 'rsa'],
  ['asyncssh', 'ed25519'],
  ['asyncssh', 'rsa'],
] as const)('serves %s with a key of %s: a command, files, a forwarded port', async ([name, kind], { skip }) => {
  if (python === undefined) return skip(`${name} runs on Python 3, which is not installed`);
  const { port, identity } = await openFixture([keys[kind]]);
  const before = await listenBefore(port);
  const host = parsed(identity.hostKey).getPublicSSH().toString('base64');
  const own = await mkdtemp(join(folder, 'python-'));
  const at = (file: string): string => join(own, file);
  await writeFile(at('known_hosts'), `[127.0.0.1]:${before.port} ssh-ed25519 ${host}\n`);
  await writeFile(at('program.py'), PROGRAMS[name]);
  await writeFile(at('sent'), Buffer.alloc(1_000_000, 'berth'));
  const echo = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  onTestFinished(() => void echo.close());
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const ports = [before.port, (echo.address() as AddressInfo).port].map(String);
  expect(await python.run('python', [at('program.py'), own, keyFile(kind), ...ports])).toBe('3 hello ping\n');
  expect((await readFile(at('there'))).equals(await readFile(at('sent')))).toBe(true);
  expect((await readFile(at('received'))).equals(await readFile(at('sent')))).toBe(true);
  expect(before.kex()).toBe(MLKEM);
});
