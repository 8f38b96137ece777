/**
 * Commands and terminals with the gateway as a process of its own, as a person at a shell relies on
 * them.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { channels } from '../../../src/contract/compute/exec.ts';
import { openExec, openTerminal, type TerminalSocket } from '../../http/api/exec-fixture.ts';
import { IMAGE_DEADLINE_MS, launchFirst } from '../../fixtures/first-launch.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';

const mebibyte = 1024 * 1024;

let server: ServerProcess;
let client: Client;
let token: string;
let instanceId: string;
let port: number;
beforeAll(async () => {
  server = await startServerProcess({ nodePorts: '32310-32319', gatewayApart: true });
  ({ client, token } = await login(server));
  port = Number(new URL(server.apiUrl).port);
  await client.setEnvironment({ secrets: { TOKEN: SECRET } });
  ({ instanceId } = await launchFirst(client, { name: 'terminals' }));
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await server?.stop();
});

const SECRET = `it's a "secret" \\ $HOME`;

const open = (terminal: string, columns = 100, rows = 30): Promise<TerminalSocket> =>
  openTerminal(port, { instanceId, terminal, columns, rows }, { token });

test('returns exit codes, with stderr separate', async () => {
  const run = (...command: string[]) => client.exec({ instanceId, command });
  expect(await run('sh', '-c', 'echo out; echo err >&2')).toMatchObject({
    exitCode: 0,
    stdout: 'out\n',
    stderr: 'err\n',
  });
  expect(await run('sh', '-c', 'exit 3')).toMatchObject({ exitCode: 3 });
  expect(await run('printenv', 'TOKEN')).toMatchObject({ stdout: `${SECRET}\n` });
  expect(await run('no-such-command')).toMatchObject({
    exitCode: 127,
    stderr: expect.stringMatching(/^no-such-command: not found/),
  });
  expect(await run('sh', '-c', 'kill -9 $$')).toMatchObject({ exitCode: 137, timedOut: false });
  const late = await client.exec({ instanceId, command: ['sh', '-c', 'sleep 4321 & sleep 4321'], timeoutSeconds: 1 });
  expect(late).toMatchObject({ exitCode: 137, timedOut: true });
  expect((await run('sh', '-c', 'ps ax | grep -c "[s]leep 4321"')).stdout).toBe('0\n');
});

const memoryOf = (pid: number | null): number =>
  Number(/^VmRSS:\s*(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;

test('100 MB pass a command from stdin to stdout byte for byte, in bounded memory', async () => {
  const total = 100 * 1_000_000;
  const line = await openExec(port, { instanceId, command: 'cat' }, { token });
  const [sent, received] = [createHash('sha256'), createHash('sha256')];
  let bytes = 0;
  line.socket.removeAllListeners('message');
  line.socket.on('message', (data: Buffer) => {
    if (data[0] !== channels.stdout) return;
    bytes += data.length - 1;
    received.update(data.subarray(1));
  });
  const before = memoryOf(server.pid());
  let most = 0;
  const watching = setInterval(() => (most = Math.max(most, memoryOf(server.pid()))), 50);
  const piece = randomBytes(100_000);
  for (let at = 0; at < total; at += piece.length) {
    sent.update(piece);
    line.send(channels.stdin, piece);
    while (line.socket.bufferedAmount > mebibyte) await new Promise((resolve) => setTimeout(resolve, 2));
  }
  line.send(channels.stdin);
  expect((await line.closed).code).toBe(1000);
  clearInterval(watching);
  expect(bytes).toBe(total);
  expect(received.digest('hex')).toBe(sent.digest('hex'));
  console.info(
    `memory of the API: ${Math.round(before / mebibyte)} MiB before, at most ${Math.round(most / mebibyte)} MiB`,
  );
  // Buffers already read are released at 64 MB (src/engines/docker/exec/exec.ts); the API's own
  // growth is included.
  expect(most - before).toBeLessThan(120 * mebibyte);
});

test('a terminal has its size, resizes and the instance’s environment, and Ctrl-C ends the program', async () => {
  const one = await open('sizes');
  one.type('stty size\r');
  await one.waitForText('30 100\r\n');
  one.resize(77, 33);
  await until(
    async () => one.messages.at(-1)?.['rows'],
    (rows) => rows === 33,
  );
  one.type('stty size\r');
  await one.waitForText('33 77\r\n');
  one.type('sleep 1000; echo "after $?"\r');
  await one.waitForText('after $?"\r\n');
  await new Promise((resolve) => setTimeout(resolve, 500));
  one.type('\x03');
  await one.waitForText('^C');
  one.type('echo "it was $?"\r');
  await one.waitForText('it was 130\r\n');
  one.type('echo "$HOME $TERM $BERTH_INSTANCE_ID $0"\r');
  await one.waitForText(new RegExp(`/root xterm-256color ${instanceId} \\S*bash\r\n`));
  one.type('echo "<$TOKEN>"\r');
  await one.waitForText(`<${SECRET}>\r\n`);
  // A change reaches new commands at once.
  const changed = { instanceId, secrets: { TOKEN: 'other' } };
  expect(await client.setInstanceEnvironment(changed)).toEqual({ runningInstances: 1 });
  const printed = await client.exec({ instanceId, command: ['printenv', 'TOKEN'] });
  expect(printed.stdout).toBe('other\n');
  one.type('exit 9\r');
  expect(await one.closed).toEqual({ code: 1000, why: 'the shell ended' });
  expect(one.messages.at(-1)).toEqual({ type: 'exit', exitCode: 9 });
});

/** A full-screen program that redraws when its size changes. */
const FULL_SCREEN = `
import curses
def run(screen):
    drawn = 0
    while True:
        drawn += 1
        rows, columns = screen.getmaxyx()
        screen.clear()
        screen.addstr(0, 0, f"drawn {drawn} at {columns}x{rows}")
        screen.addstr(rows - 1, 0, "the last line")
        screen.refresh()
        if screen.getkey() == "q":
            return
curses.wrapper(run)
`;

test('a full-screen program redraws for each new viewer and restores the screen', async () => {
  await client.exec({ instanceId, command: ['sh', '-c', 'cat >/root/full.py'], stdin: FULL_SCREEN });
  const first = await open('full');
  first.type('echo before; python3 full.py; echo left\r');
  await first.waitForText('drawn 1 at 100x30');
  first.type('x');
  await first.waitForText('drawn 2 at 100x30');
  first.socket.close();
  await first.closed;
  const same = await open('full');
  await same.waitForText('the last line');
  await same.waitForText(/drawn \d+ at 100x29/);
  await same.waitForText(/at 100x29[^]*drawn \d+ at 100x30/);
  expect(same.shown()).toContain('\x1b[?1049h');
  const larger = await open('full', 120, 40);
  await larger.waitForText(/drawn \d+ at 120x40/);
  larger.type('q');
  for (const viewer of [same, larger]) await viewer.waitForText(/\[\?1049l[^]*left\r\n/);
});

test('a terminal survives a killed API without losing output', async () => {
  const before = await open('lasting');
  before.type('for n in $(seq 1 60); do echo "tick $n"; sleep 0.1; done; echo over\r');
  await before.waitForText('tick 5\r\n');
  await server.kill('SIGKILL');
  await before.closed;
  await server.start();
  const after = await open('lasting');
  await after.waitForText('\r\nover\r\n');
  expect(after.messages[0]).toMatchObject({ created: false });
  expect(after.shown().match(/^tick \d+/gm)).toEqual(Array.from({ length: 60 }, (_, n) => `tick ${n + 1}`));
  const { terminals } = await client.listTerminals({ instanceId });
  expect(terminals.map(({ terminal }) => terminal)).toContain('lasting');
  await client.closeTerminal({ instanceId, terminal: 'lasting' });
  expect(await after.closed).toEqual({ code: 4410, why: 'the terminal was closed' });
});

test('after a megabyte of output a new viewer gets the last lines intact and no terminal queries', async () => {
  const first = await open('long');
  first.type("printf '\\033[6n\\033[c'; seq 1 200000\r");
  await first.waitForText('\r\n200000\r\n');
  first.socket.close();
  await first.closed;
  const next = await open('long');
  await next.waitForText('\r\n200000\r\n');
  const lines = next
    .shown()
    .split('\r\n')
    .filter((line) => /^\d+$/.test(line));
  expect(Number(lines[0])).toBe(200_001 - lines.length);
  expect(next.shown().length).toBeLessThanOrEqual(256 * 1024 + 1_024);
  expect(next.shown()).not.toContain('\x1b[6n');
});

test('a stopped instance ends its terminals, and a stopped gateway leaves no shell behind', async () => {
  const viewer = await open('last');
  await viewer.waitForText('root@terminals:~# ');
  await client.exec({ instanceId, command: ['sh', '-c', 'echo seen'] });
  await server.gateway?.kill('SIGTERM');
  expect([4410, 4503]).toContain((await viewer.closed).code);
  const count = 'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep -c ^BERTH_TERMINAL=last';
  expect((await client.exec({ instanceId, command: ['sh', '-c', count] })).stdout).toBe('0\n');
  await server.gateway?.start();
  const killed = await open('last');
  killed.type('setsid sleep 4321 & echo begun\r');
  await killed.waitForText('begun\r\n');
  await server.gateway?.kill('SIGKILL');
  expect((await killed.closed).code).toBe(4503);
  await server.gateway?.start();
  const next = await open('last');
  await next.waitForText('# ');
  // The previous shell gets SIGHUP, its background job does not, and this shell stays.
  await until(
    () => client.exec({ instanceId, command: ['sh', '-c', `${count}; ps ax | grep -c '[s]leep 4321'`] }),
    ({ stdout }) => stdout === '2\n1\n',
  );
  await client.stop({ instanceId });
  // The start script hangs up terminal users before the container ends.
  expect([1000, 4410]).toContain((await next.closed).code);
});
