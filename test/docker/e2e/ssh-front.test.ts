/**
 * OpenSSH's programs on the node port of 22 at three images: busybox only, Debian without sshd, and
 * Debian with sshd. The front must serve what sshd serves.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { atLevel, isLong } from '../../fixtures/level.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { lastingConnections } from '../../../src/control/compute/auto-stop/tcp-connections.ts';
import { makeSshHostKeys } from '../../../src/control/access/routing/ssh-host-key.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { makeSecurityKey } from '../../fixtures/security-key.ts';
import { docker, login, PASSWORD, until } from '../../fixtures/server-process.ts';
import { startInside, type ServerInside } from './in-process-server.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { makeSshUser, type SshUser } from '../../fixtures/ssh-user.ts';

const IMAGE_DEADLINE_MS = 600_000;
const sha = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

let inside: ServerInside;
let user: SshUser;
let withoutSshd: string | undefined;
beforeAll(async () => {
  inside = await startInside({ nodePorts: '30950-30999', limits: { stopGraceMs: 1_000 } });
  user = await makeSshUser();
  const { client, server } = inside;
  await client.createSshKey({ name: 'laptop', publicKey: user.publicKey });
  await until(
    () => client.listImages({ pager: { currentPage: 1, pageSize: 50 } }),
    ({ images }) => images.find(({ imageId }) => imageId === server.example.imageId)?.state === 'Ready',
    IMAGE_DEADLINE_MS,
  );
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await inside?.stop();
  await user?.remove();
  if (withoutSshd !== undefined) await docker.getImage(withoutSshd).remove({ force: true });
});

/** Builds the notebook image without sshd and its packages. */
async function makeWithoutSshd(): Promise<string> {
  const [repo, tag] = ['berth.local/without-sshd', randomUUID()];
  const Cmd = ['-c', 'rm -rf /usr/sbin/sshd /usr/lib/openssh /usr/bin/rsync /usr/bin/sftp'];
  const Image = inside.server.drivers.images[0]?.ref;
  const container = await docker.createContainer({ Image, Entrypoint: ['/bin/sh'], Cmd });
  try {
    await container.start();
    await container.wait();
    await container.commit({ repo, tag });
  } finally {
    await container.remove({ force: true });
  }
  withoutSshd = `${repo}:${tag}`;
  return withoutSshd;
}

interface Kind {
  name: string;
  image: () => Promise<string | undefined>;
  hasSshd: boolean;
  /** Besides sh. */
  hasBash: boolean;
  atShort: boolean;
}

const kinds: Kind[] = [
  { name: 'a busybox', image: () => inside.offerTiny(), hasSshd: false, hasBash: false, atShort: true },
  {
    name: 'a Debian without sshd',
    image: async () => inside.offer(await makeWithoutSshd()),
    hasSshd: false,
    hasBash: true,
    atShort: false,
  },
  { name: 'a Debian with sshd', image: async () => undefined, hasSshd: true, hasBash: true, atShort: true },
];

const LARGE_MB = atLevel({ short: 20, long: 60, soak: 200 });

// The short level tests the front and sshd once each.
describe.each(kinds.filter(({ atShort }) => atShort || isLong))('$name', ({ image, hasSshd, hasBash }) => {
  // What the front does is done by sshd here, which is not Berth's code.
  const frontTest = hasSshd ? longTest : test;
  let id: string;
  let port: number;
  const ssh = (command: string, stdin?: string) => user.sh(port, `$SSH '${command}'`, stdin);
  /** Processes inside whose command line matches. */
  const count = async (pattern: string): Promise<number> => {
    const look = 'for p in /proc/[0-9]*; do tr "\\\\000" " " <$p/cmdline 2>/dev/null; echo; done';
    return Number((await ssh(`${look} | grep -c "^${pattern} $"`)).stdout);
  };
  const nodePort = async (instanceId: string): Promise<number> => {
    const { instance } = await inside.client.getInstance({ instanceId });
    return instance.instanceSpecInfo.nodePorts.find((one) => one.port === 22)?.nodePort ?? 0;
  };
  beforeAll(async () => {
    const imageId = await image();
    id = await inside.launch(imageId === undefined ? {} : { imageId });
    await inside.sees(id, { status: 'Running' });
    port = await nodePort(id);
    // Berth's tools for images without sshd must be ready.
    if (!hasSshd)
      await until(
        () => ssh('test -x /opt/berth/bin/sftp-server'),
        ({ code }) => code === 0,
      );
  }, IMAGE_DEADLINE_MS);
  afterAll(async () => {
    await inside.removeAll(id);
    await user.forgetHosts();
  });

  test('opens by a certificate of the account for root, and by none for another principal', async () => {
    const { client } = inside;
    const made = await user.sh(port, 'cd $DIR && rm -f ca* && ssh-keygen -q -t ed25519 -N "" -f ca && cat ca.pub');
    const { sshKey } = await client.createSshKey({ name: 'ca', kind: 'ca', publicKey: made.stdout.trim() });
    const certify = (principal: string): string =>
      'cd $DIR && ssh-keygen -q -t ed25519 -N "" -f signed <<<y >/dev/null && ' +
      `ssh-keygen -q -s ca -I x -n ${principal} signed.pub && \${SSH/$KEY/$DIR/signed} echo opened`;
    await until(
      () => user.sh(port, certify('root')),
      ({ stdout }) => stdout === 'opened\n',
      30_000,
    );
    expect(await user.sh(port, certify('bob'))).toMatchObject({ code: 255, stdout: '' });
    await client.deleteSshKey({ id: sshKey.id });
    await until(
      () => user.sh(port, certify('root')),
      ({ code }) => code === 255,
      30_000,
    );
  });

  test('answers once Running, always with the same host key', async () => {
    const banner = await user.sh(port, `timeout 60 bash -c 'head -c 8 </dev/tcp/127.0.0.1/'$PORT`);
    expect(banner.stdout).toBe('SSH-2.0-');
    expect(await ssh('echo hello')).toEqual({ code: 0, stdout: 'hello\n', stderr: '' });
    const key = await readFile(join(inside.folder, 'secrets.key'));
    await writeFile(join(user.folder, 'host'), makeSshHostKeys(key)(id), { mode: 0o600 });
    const derived = await user.sh(port, 'ssh-keygen -y -f $DIR/host');
    expect(derived.stdout.split(' ')[1]?.trim()).toBe(await user.knownHost(port));
  });

  test('a command has its exit code, separate stderr, root’s home and shell, and the instance’s environment', async () => {
    expect(await ssh('echo out; echo err >&2; exit 7')).toEqual({ code: 7, stdout: 'out\n', stderr: 'err\n' });
    const { stdout } = await ssh(
      'echo "$HOME $USER $LANG $BERTH_INSTANCE_ID"; pwd; tty; [ -x "$SHELL" ] && echo shell',
    );
    expect(stdout).toBe(`/root root C.UTF-8 ${id}\n/root\nnot a tty\nshell\n`);
    if (hasBash) expect((await ssh('exec bash -lc "echo \\$PATH"')).stdout).toContain('/opt/conda/bin');
    expect((await ssh('kill -9 $$')).code).toBeGreaterThan(127);
    expect((await ssh('nothing-that-is-there')).code).toBe(127);
  });

  frontTest('a shell on a terminal has its size, resizes, Ctrl-C and an exit code', async () => {
    const shell = user.begin(port, '$SSH -tt', { columns: 132, rows: 43 });
    shell.type('stty size; echo "term=$TERM"\n');
    await until(
      async () => shell.said(),
      (said) => said.includes('43 132') && /term=\w/.test(said),
    );
    shell.type('sleep 100; echo next-$?\n');
    await new Promise((resolve) => setTimeout(resolve, 500));
    shell.type('\x03');
    await until(
      async () => shell.said(),
      (said) => /\^C/.test(said),
    );
    shell.type('echo after-$?\n');
    await until(
      async () => shell.said(),
      (said) => said.includes('after-130'),
    );
    shell.type('exit 9\n');
    expect((await shell.ended).code).toBe(9);

    const resized = user.begin(port, `T=$(tty); (sleep 2; stty -F $T cols 100 rows 30) & $SSH -tt`, {
      columns: 80,
      rows: 24,
    });
    resized.type('stty size\n');
    await until(
      async () => resized.said(),
      (said) => said.includes('24 80'),
    );
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    resized.type('stty size; exit\n');
    expect((await resized.ended).stdout).toContain('30 100');
  });

  frontTest(`${LARGE_MB} MB go in and come back intact`, async () => {
    const file = join(user.folder, 'large');
    const bytes = randomBytes(LARGE_MB * 1_000_000);
    await writeFile(file, bytes);
    const began = performance.now();
    const there = await user.sh(port, '$SSH sha256sum <$DIR/large');
    const inMs = performance.now() - began;
    expect(there.stdout).toBe(`${sha(bytes)}  -\n`);
    await ssh('cat >/tmp/large', 'x');
    const back = await user.sh(
      port,
      '$SSH "cat >/tmp/large" <$DIR/large; $SSH cat /tmp/large | sha256sum; $SSH rm /tmp/large',
    );
    expect(back.stdout).toBe(`${sha(bytes)}  -\n`);
    process.stderr.write(`${LARGE_MB} MB in: ${Math.round(inMs)} ms (${hasSshd ? 'sshd' : 'front'})\n`);
  });

  frontTest('scp, sftp and rsync work both ways, across key re-exchanges', async () => {
    const bytes = randomBytes(10_000_000);
    await writeFile(join(user.folder, 'file'), bytes);
    const scp = await user.sh(
      port,
      `set -e; cd $DIR; trap 'echo "in: $BASH_COMMAND"' EXIT; SSH_OPTIONS="$SSH_OPTIONS -o RekeyLimit=1M"
       scp -q $SSH_OPTIONS -P $PORT file root@127.0.0.1:/root/by-scp
       scp -q $SSH_OPTIONS -P $PORT root@127.0.0.1:/root/by-scp back; cmp file back
       printf 'put file by-sftp\\nrename by-sftp moved\\nget moved back2\\nrm moved\\n' | sftp -q $SSH_OPTIONS -P $PORT -b - root@127.0.0.1 >/dev/null
       cmp file back2
       mkdir -p tree/deep && cp file tree/deep && echo text >tree/note
       rsync -a -e "ssh $SSH_OPTIONS -p $PORT" tree root@127.0.0.1:/root/
       rsync -a -e "ssh $SSH_OPTIONS -p $PORT" root@127.0.0.1:/root/tree/ tree2
       diff -r tree tree2
       ssh -v $SSH_OPTIONS -p $PORT root@127.0.0.1 'cat >/root/rekeyed' <file 2>log
       test $(grep -c 'SSH2_MSG_NEWKEYS sent' log) -gt 5
       ssh $SSH_OPTIONS -p $PORT root@127.0.0.1 'cat /root/rekeyed' | cmp - file
       rm -r back back2 log tree tree2; trap - EXIT; echo done`,
    );
    expect(scp).toEqual({ code: 0, stdout: 'done\n', stderr: '' });
  });

  frontTest(
    'forwards ports: -L and -D to 127.0.0.1 inside with many connections at once, -R from a port inside',
    async () => {
      const server = user.begin(
        port,
        `$SSH 'mkdir -p /tmp/www; head -c 300000 /dev/zero >/tmp/www/file; ${hasBash ? 'cd /tmp/www && exec python3 -m http.server -b 127.0.0.1 7070' : 'exec httpd -f -p 127.0.0.1:7070 -h /tmp/www'}'`,
      );
      await until(
        () => ssh('cat /proc/net/tcp | grep -c 0100007F:1B9E.*0A'),
        ({ stdout }) => stdout.trim() !== '0',
      );
      const [l, d] = [await freePort(), await freePort()];
      const way = user.begin(port, `exec $SSH -N -L ${l}:localhost:7070 -D ${d} -o ExitOnForwardFailure=yes`);
      // Both forwards are there, and the server inside answers.
      const targets = [`http://127.0.0.1:${l}/file`, `--socks5-hostname 127.0.0.1:${d} http://localhost:7070/file`];
      for (const target of targets)
        await until(
          () => user.sh(port, `curl -sf ${target} | wc -c`),
          ({ stdout }) => stdout.trim() === '300000',
        );
      const fetches = targets.map((target) => `curl -sf ${target} | wc -c &`).join(' ');
      const many = await user.sh(port, `for n in $(seq 20); do ${fetches} done; wait`);
      expect(many.stdout.trim().split('\n')).toEqual(Array.from({ length: 40 }, () => '300000'));
      const dead = await user.sh(port, `curl -sS --max-time 10 --socks5-hostname 127.0.0.1:${d} http://127.0.0.1:9/`);
      expect(dead.code).not.toBe(0);
      way.child.kill();

      const r = await freePort();
      const fetched = hasBash
        ? 'exec python3 -c "import urllib.request as r; print(r.urlopen(\\"http://127.0.0.1:7171/known_hosts\\").read().decode()[0], end=\\"\\")"'
        : 'wget -q -O - http://127.0.0.1:7171/known_hosts | head -c 1';
      const local = createServer((_asked, answer) => void answer.end('[')).listen(r, '127.0.0.1');
      const back = user.begin(port, `exec $SSH -N -R 7171:127.0.0.1:${r} -o ExitOnForwardFailure=yes`);
      await until(
        () => ssh(fetched),
        ({ stdout }) => stdout === '[',
      );
      // The reply about the port comes before that about the command.
      const chosen = await user.sh(
        port,
        `ssh -o LogLevel=INFO $SSH_OPTIONS -p $PORT -R 0:127.0.0.1:${r} root@127.0.0.1 true`,
      );
      expect(chosen.stderr).toMatch(/Allocated port [1-9]\d* for remote forward/);
      const taken = await user.sh(port, `$SSH -N -R 7171:127.0.0.1:${r} -o ExitOnForwardFailure=yes`);
      expect(taken.stderr).toMatch(/remote port forwarding failed/);
      for (const one of [back, server]) one.child.kill();
      local.close();
    },
  );

  frontTest('forwards the agent for as long as its connection', async () => {
    // An image without ssh has no ssh-add, so a small client speaks the agent protocol.
    const ask = hasBash
      ? `import os,socket; s=socket.socket(socket.AF_UNIX); s.connect(os.environ["SSH_AUTH_SOCK"]); s.sendall(b"\\0\\0\\0\\1\\x0b"); print(s.recv(9)[4])`
      : '';
    const said = await user.sh(
      port,
      `eval $(ssh-agent) >/dev/null; ssh-add -q $KEY; $SSH -A 'echo $SSH_AUTH_SOCK; [ -S "$SSH_AUTH_SOCK" ] && echo there'; ${hasBash ? `echo '${ask}' | $SSH -A 'python3 -'` : 'echo 12'}; ssh-agent -k >/dev/null`,
    );
    const [path = '', ...rest] = said.stdout.trim().split('\n');
    expect(rest).toEqual(['there', '12']);
    expect((await ssh(`[ -e ${path} ] || echo gone`)).stdout).toBe('gone\n');
    expect((await ssh('echo "none:$SSH_AUTH_SOCK"')).stdout).toBe('none:\n');
  });

  frontTest('serves VS Code: a script on stdin, a background server, and a tunnel to it', async () => {
    const script = 'cd /tmp; (setsid sleep 300 >/tmp/log 2>&1 </dev/null & echo pid=$!); echo listening\n';
    const begun = await user.sh(port, `$SSH -T ${hasBash ? 'bash' : 'sh'}`, script);
    expect(begun).toMatchObject({ code: 0, stdout: expect.stringMatching(/^pid=\d+\nlistening\n$/) });
    expect(
      (await ssh('pidof sleep >/dev/null && echo runs; killall sleep 2>/dev/null || kill $(pidof sleep)')).stdout,
    ).toBe('runs\n');
    const shared = await user.sh(
      port,
      `$SSH -fNM -o ControlPath=$DIR/mux; for n in $(seq 20); do ssh -o ControlPath=$DIR/mux x "echo $n" & done | sort -n | tr '\\n' ' '; wait; ssh -q -O exit -o ControlPath=$DIR/mux x`,
    );
    expect(
      shared.stdout
        .trim()
        .split(' ')
        .toSorted((a, b) => Number(a) - Number(b)),
    ).toEqual(Array.from({ length: 20 }, (_, n) => String(n + 1)));
  });

  frontTest('a hang-up ends the terminal’s programs, and no background program', async () => {
    const shell = user.begin(port, '$SSH -tt sh', { columns: 80, rows: 24 });
    await until(
      async () => shell.said(),
      (said) => /[#$] /.test(said),
    );
    shell.type('(trap "" HUP; exec /bin/sleep 301) >/dev/null 2>&1 & /bin/sleep 302\n');
    await until(
      () => count('/bin/sleep 30[12]'),
      (found) => found === 2,
    );
    shell.child.kill('SIGKILL');
    await user.sh(port, 'pkill -KILL -f "[s]sh .*-p $PORT .*-tt" || true');
    await until(
      () => count('/bin/sleep 302'),
      (found) => found === 0,
      20_000,
    );
    expect(await count('/bin/sleep 301')).toBe(1);
    await ssh('kill $(pidof sleep)');
  });

  test('adds and removes keys at a running instance', async () => {
    const second = await makeSshUser('ecdsa');
    const third = await makeSshUser('rsa', ['-b', '3072']);
    const tryOf = (one: SshUser) => one.sh(port, '$SSH true');
    expect((await tryOf(second)).stderr).toMatch(/Permission denied/);
    const made = [];
    for (const one of [second, third])
      made.push(await inside.client.createSshKey({ name: one.folder, publicKey: one.publicKey }));
    for (const one of [second, third])
      await until(
        () => tryOf(one),
        ({ code }) => code === 0,
        15_000,
      );
    const open = second.begin(port, 'exec $SSH sleep 100');
    await until(
      () => count('sleep 100'),
      (found) => found === 1,
    );
    for (const { sshKey } of made) await inside.client.deleteSshKey({ id: sshKey.id });
    for (const one of [second, third])
      await until(
        () => tryOf(one),
        ({ code }) => code === 255,
        15_000,
      );
    // sshd keeps open sessions; the front cuts them.
    if (!hasSshd) expect((await open.ended).code).not.toBe(0);
    open.child.kill();
    for (const one of [second, third]) await one.remove();
  });

  test.each(['ed25519', 'P-256'] as const)('a security key logs in only when touched: %s', async (curve) => {
    const key = await makeSecurityKey(curve, join(user.folder, `agent-${curve}`));
    const { sshKey } = await inside.client.createSshKey({ name: curve, publicKey: key.publicKey });
    const line = `ssh -o IdentityAgent=${key.socket} -o IdentityFile=none -o IdentitiesOnly=no $SSH_OPTIONS -p $PORT root@127.0.0.1 echo in`;
    const tried = () => user.sh(port, line.replace('$SSH_OPTIONS', '${SSH_OPTIONS/-o IdentityFile=$KEY/}'));
    await until(tried, ({ stdout }) => stdout === 'in\n', 15_000);
    key.touched = false;
    expect(await tried()).toMatchObject({
      code: 255,
      stderr: expect.stringMatching(/Permission denied \(publickey/),
    });
    await inside.client.deleteSshKey({ id: sshKey.id });
    key.stop();
  });

  test('a session counts as use exactly while it is open', async () => {
    const { engine } = inside.server.drivers.drivers;
    const signal = AbortSignal.timeout(180_000);
    const open = async () =>
      (await lastingConnections({ engine, id: instanceId(id), time: realTime, signal }, new Set([22]), 500)).length;
    const session = user.begin(port, 'exec $SSH sleep 1234');
    expect(await until(open, (found) => found === 1)).toBe(1);
    session.child.kill();
    expect(await until(open, (found) => found === 0)).toBe(0);
  });

  test('refuses every other account', async () => {
    const username = `mallory-${randomBytes(4).toString('hex')}`;
    await inside.client.createUser({ username, password: PASSWORD, balance: 10 });
    const { client } = await login(inside.server, username);
    const mallory = await makeSshUser();
    await client.createSshKey({ name: 'theirs', publicKey: mallory.publicKey });
    // Once a later key of the owner works, the foreign key has had time to take effect too.
    const later = await makeSshUser();
    const { sshKey } = await inside.client.createSshKey({ name: later.folder, publicKey: later.publicKey });
    await until(
      () => later.sh(port, '$SSH true'),
      ({ code }) => code === 0,
    );
    expect((await mallory.sh(port, '$SSH true')).stderr).toMatch(/Permission denied \(publickey/);
    expect((await mallory.sh(port, '$SSH -l admin true')).stderr).toMatch(/Permission denied \(publickey/);
    await inside.client.deleteSshKey({ id: sshKey.id });
    for (const one of [later, mallory]) await one.remove();
  });

  test('keeps the host key over stop and start, and cuts open sessions', async () => {
    const before = await user.knownHost(port);
    const open = user.begin(port, 'exec $SSH sleep 1000');
    await until(
      () => count('sleep 1000'),
      (found) => found === 1,
    );
    await inside.client.stop({ instanceId: id });
    expect((await open.ended).code).not.toBe(0);
    await inside.sees(id, { status: 'Stopped' });
    await inside.client.start({ instanceId: id });
    await inside.sees(id, { status: 'Running' });
    port = await nodePort(id);
    expect((await ssh('echo again')).stdout).toBe('again\n');
    expect(await user.knownHost(port)).toBe(before);
  });
});
