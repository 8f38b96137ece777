/**
 * Joining an instance's network on Docker: the child process, its isolation, and an unreachable
 * engine.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import { text } from 'node:stream/consumers';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { makeNetworkChild } from '../../../src/engines/docker/network/parent.ts';
import type { EngineSpec, InstanceNetwork } from '../../../src/engines/contract.ts';
import { containerName } from '../../../src/engines/labels.ts';
import {
  control,
  deadline,
  echoPort,
  expectFault,
  until,
  type Subject,
  type SpecOptions,
} from '../../conformance/subject.ts';
import { listenersOf } from '../../../src/domain/access/listeners.ts';
import { atLevel } from '../../fixtures/level.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { endpoint, isolation, onDocker, type DockerFixture } from './docker-fixture.ts';
import { makeCuttable, withSocket } from './sockets.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

const loopback = '127.0.0.1';
const CONNECTIONS = atLevel({ short: 200, long: 1_000 });
const echo = { host: loopback, port: echoPort };

async function joined(options?: SpecOptions): Promise<{ spec: EngineSpec; network: InstanceNetwork }> {
  const spec = subject.spec(options);
  await subject.ensure(spec);
  const network = await fixture.engine.joinNetwork(spec.id, deadline());
  subject.after(async () => network.close());
  (await subject.dial(spec.id, echoPort)).destroy();
  return { spec, network };
}

/** Children of a process, by default this one, in an instance's network. */
async function children(parent = process.pid): Promise<number[]> {
  const pids = (await readFile(`/proc/${parent}/task/${parent}/children`, 'utf8')).trim().split(/\s+/).map(Number);
  const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
  return pids.filter((_, index) => commands[index]?.includes('network/child.mjs'));
}

async function child(): Promise<number> {
  const [pid, ...more] = await children();
  expect(more).toEqual([]);
  return pid ?? expect.fail('no child process');
}

const openFiles = async (): Promise<string[]> =>
  Promise.all((await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));

const handles = async (): Promise<number> => (await readdir('/proc/self/fd')).length;

/** Lets pending calls send their requests, then blocks this process. */
async function blockProcess(): Promise<void> {
  for (let round = 0; round < 50; round++) await Promise.resolve();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
}

async function says(network: InstanceNetwork, at: { host: string; port: number }, what = 'hello'): Promise<string> {
  const stream = await network.connect(at, deadline());
  stream.end(what);
  return text(stream);
}

describe('connections and listeners in an instance’s network', () => {
  it('are listed by the tables of the network, which need no program of the image', async () => {
    const { spec, network } = await joined();
    const listen = (host: string, port: number) => network.listen({ host, port }, () => {}, deadline());
    await listen(loopback, 7101);
    await listen('', 7104);
    const listeners = async () => listenersOf((await fixture.engine.tcpTables?.(spec.id, deadline())) ?? '', true);
    const expected = [
      { port: echoPort, onLoopback: false },
      { port: 7101, onLoopback: true },
      { port: 7104, onLoopback: false },
    ];
    expect(await listeners()).toEqual(expect.arrayContaining(expected));
    expect((await listeners()).map(({ port }) => port)).not.toContain(22);
  });

  it('lose no byte of a server that sends first', async () => {
    const { spec, network } = await joined();
    await subject.exec(spec.id, 'sh', '-c', 'nc -ll -p 7002 -e hostname >/dev/null 2>&1 &');
    const at = { host: loopback, port: 7002 };
    await until('it listens', () =>
      network.connect(at, deadline()).then(
        (stream) => stream.destroy(),
        () => false,
      ),
    );
    for (let n = 0; n < 100; n++) {
      const stream = await network.connect(at, deadline());
      expect(await text(stream)).toBe(`${spec.hostname}\n`);
      stream.end();
    }
  });

  it('accept connections during the hand-over of the listener', async () => {
    const { spec, network } = await joined();
    const comes = 'for n in 1 2 3 4 5 6 7 8; do while ! echo $n | nc 127.0.0.1 7003; do :; done & done; wait';
    const answers = subject.exec(spec.id, 'sh', '-c', comes);
    await until('the clients are dialing', async () =>
      (await subject.exec(spec.id, 'ps')).stdout.includes('nc 127.0.0.1 7003'),
    );
    await says(network, echo);
    // Later requests wait in the child until the first connection is taken.
    const first = network.connect(echo, deadline());
    await blockProcess();
    const second = network.listen({ host: '', port: 7003 }, (connection) => connection.end('in'), deadline());
    await blockProcess();
    (await first).destroy();
    await second;
    expect((await answers).stdout).toBe('in'.repeat(8));
  });

  it('support half-close from either side', async () => {
    const { spec, network } = await joined();
    await subject.exec(spec.id, 'sh', '-c', 'nc -l -p 7005 </dev/null >/tmp/came 2>&1 &');
    const at = { host: loopback, port: 7005 };
    const stream = await until('it listens', () => network.connect(at, deadline()).catch(() => undefined));
    expect(await text(stream), 'the server sends nothing').toBe('');
    await delay(100);
    stream.end('and hears');
    await until(
      'the server has received the text',
      async () => (await subject.exec(spec.id, 'cat', '/tmp/came')).stdout === 'and hears',
    );
    const { port } = await network.listen(
      { host: '', port: 0 },
      (connection) => void text(connection).then((said) => connection.end(`all of ${said}`)),
      deadline(),
    );
    const asked = await subject.exec(spec.id, 'sh', '-c', `echo this | nc 127.0.0.1 ${port}`);
    expect(asked.stdout).toBe('all of this\n');
  });

  it('report the peer’s address', async () => {
    const { spec, network } = await joined();
    const received = Promise.withResolvers<string | undefined>();
    const { port } = await network.listen(
      { host: '', port: 0 },
      (connection) => received.resolve(connection.remoteAddress),
      deadline(),
    );
    (await fixture.engine.dial(spec.id, port, deadline())).destroy();
    const { NetworkSettings } = await fixture.inspect(spec.id);
    const [gateway] = Object.values(NetworkSettings.Networks).map(({ Gateway }) => Gateway);
    expect(await received.promise).toContain(gateway);
  });

  it('resolve names of the instance, not of the host', async () => {
    const { spec, network } = await joined();
    const other = subject.spec({ ownerId: spec.ownerId });
    await subject.ensure(other);
    (await subject.dial(other.id, echoPort)).destroy();
    await subject.exec(spec.id, 'sh', '-c', 'echo 127.0.0.9 my-own-name >>/etc/hosts');
    for (const host of ['my-own-name', containerName(other.id)])
      expect(await says(network, { host, port: echoPort }), host).toBe('hello');
    await expectFault(network.connect({ host: os.hostname(), port: echoPort }, deadline()), 'not_found');
  });

  it(`leave no handle and no process after ${CONNECTIONS} connections`, { timeout: 120_000 }, async () => {
    const { network } = await joined();
    await says(network, echo);
    const before = await handles();
    for (let n = 0; n < CONNECTIONS; n++) expect(await says(network, echo, `I am ${n}`)).toBe(`I am ${n}`);
    await until('all connections are closed', async () => (await handles()) <= before);
    const one = await child();
    expect((await readdir(`/proc/${one}/fd`)).length).toBeLessThan(40);
    network.close();
    await until('its process is gone', async () => (await children()).length === 0);
    await until('the channel is closed', async () => (await handles()) < before);
  });
});

describe('the child process in a network', () => {
  it('shares only the network with the instance', async () => {
    const { spec, network } = await joined();
    await says(network, echo);
    const pid = await child();
    const { State } = await fixture.inspect(spec.id);
    const namespace = (of: number | string, kind: string): Promise<string> => readlink(`/proc/${of}/ns/${kind}`);
    for (const kind of await readdir('/proc/self/ns')) {
      const expected = kind === 'net' ? State.Pid : process.pid;
      expect(await namespace(pid, kind), kind).toBe(await namespace(expected, kind));
    }
    expect(await readlink(`/proc/${pid}/root`)).toBe('/');
    expect(await readlink(`/proc/${pid}/cwd`)).toBe('/');
  });

  it('has no environment, no file but its channel, and no privileges', async () => {
    const { network } = await joined();
    process.env['BERTH_TEST_SECRET'] = 'harbour';
    const stream = net.connect({ path: 'socketPath' in endpoint ? endpoint.socketPath : '' });
    await once(stream, 'connect');
    await says(network, echo);
    delete process.env['BERTH_TEST_SECRET'];
    const pid = await child();
    const names = (await readFile(`/proc/${pid}/environ`, 'utf8')).split('\0').map((pair) => pair.split('=')[0]);
    expect(names.filter((name) => name !== '' && !name?.startsWith('NODE_CHANNEL_'))).toEqual([]);
    const own = async (): Promise<string[]> => {
      const open = (await readdir(`/proc/${pid}/fd`)).map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => ''));
      return (await Promise.all(open)).filter((what) => !/^$|^\/dev\/null$|^anon_inode:|^pipe:/.test(what));
    };
    // The connection of before closes on both sides in turn.
    await until('one file is open', async () => (await own()).length === 1);
    expect(await own(), 'its channel').toEqual([expect.stringMatching(/^socket:/)]);
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    const user = /^Uid:\s+(\d+)/m.exec(status)?.[1] ?? '';
    expect(Number(user), 'above the ids that programs of the host assign').toBeGreaterThanOrEqual(0x7800_0000);
    expect(status).toMatch(new RegExp(`^Uid:(\\s+${user}){4}$`, 'm'));
    expect(status).toMatch(new RegExp(`^Gid:(\\s+${user}){4}$`, 'm'));
    expect(status).toMatch(/^Groups:\s*$/m);
    expect(status).toMatch(/^CapEff:\s+0+$/m);
    expect(status).toMatch(/^CapPrm:\s+0+$/m);
    stream.destroy();
  });

  it('is invisible inside, and offers nothing to connect to', async () => {
    const { spec, network } = await joined();
    const listed = async (): Promise<string> =>
      (await subject.exec(spec.id, 'sh', '-c', 'ps; netstat -ltn; cat /proc/net/unix')).stdout;
    const before = await listed();
    await says(network, echo);
    await child();
    const after = await listed();
    const without = (reported: string): string[] =>
      reported.split('\n').filter((line) => !/\bps$|netstat|sh -c/.test(line));
    expect(without(after)).toEqual(without(before));
  });

  it('is replaced after a kill, and open connections survive', async () => {
    const { spec, network } = await joined();
    const stream = await network.connect(echo, deadline());
    const listening = await network.listen({ host: '', port: 0 }, (connection) => connection.end('in'), deadline());
    const first = await child();
    process.kill(first, 'SIGKILL');
    await until('it is gone', async () => !(await children()).includes(first));
    stream.end('still here');
    expect(await text(stream)).toBe('still here');
    expect(await text(await fixture.engine.dial(spec.id, listening.port, deadline()))).toBe('in');
    // A request before the child's end is noticed gets a retryable fault.
    const again = () => says(network, echo).catch((error: unknown) => error instanceof EngineFault && !error.retry);
    expect(await until('another child', again)).toBe('hello');
    expect(await child()).not.toBe(first);
  });

  it('stopped or killed during a request, ends at the deadline or with a retryable fault', async () => {
    const { network } = await joined();
    await says(network, echo);
    const first = await child();
    process.kill(first, 'SIGSTOP');
    const [controller, lost] = [new AbortController(), network.connect(echo, deadline())];
    const aborted = network.connect(echo, controller.signal);
    controller.abort();
    await expectFault(aborted, 'unreachable');
    process.kill(first, 'SIGKILL');
    const fault = await expectFault(lost, 'unreachable');
    expect(fault.retry).toBe(true);
    expect(await says(network, echo)).toBe('hello');
  });

  it('closes aborted connections', async () => {
    const { network } = await joined();
    await says(network, echo);
    const pid = await child();
    const before = [await handles(), (await readdir(`/proc/${pid}/fd`)).length];
    const controller = new AbortController();
    const all = Array.from({ length: 20 }, () => network.connect(echo, controller.signal));
    const refused = all.map((one) => expectFault(one, 'unreachable'));
    await blockProcess();
    controller.abort();
    await Promise.all(refused);
    expect(await says(network, echo)).toBe('hello');
    await until('all connections are closed', async () => {
      const now = [await handles(), (await readdir(`/proc/${pid}/fd`)).length];
      return now.every((count, index) => count <= (before[index] ?? 0));
    });
  });

  longTest('has a bounded number of concurrent requests', async () => {
    const { network } = await joined();
    await says(network, echo);
    const pid = await child();
    process.kill(pid, 'SIGSTOP');
    const all = await Promise.allSettled(
      Array.from({ length: 300 }, () => network.connect(echo, AbortSignal.timeout(1_000))),
    );
    process.kill(pid, 'SIGCONT');
    const kinds = all.map((one) => (one.status === 'rejected' ? one.reason.kind : 'opened'));
    expect(kinds.filter((kind) => kind === 'no_capacity').length).toBe(300 - 256);
    expect(await says(network, echo)).toBe('hello');
  });

  longTest('exits when idle, and is started again', async () => {
    const { spec } = await joined();
    const { NetworkSettings } = await fixture.inspect(spec.id);
    const nsenter = fixture.facts.nsenter ?? expect.fail('the host has no nsenter');
    const alone = makeNetworkChild({ nsenter, network: NetworkSettings.SandboxKey, idleMs: 50 });
    const request = { connect: { addresses: [loopback], names: [], servers: [], port: echoPort } };
    for (let round = 0; round < 2; round++) {
      (await alone.open(request, deadline())).unref();
      await child();
      await until('it has ended', async () => (await children()).length === 0);
    }
    alone.stop();
  });

  it("never opens sockets in the host's own network", async () => {
    const nsenter = fixture.facts.nsenter ?? expect.fail('the host has no nsenter');
    const lost = makeNetworkChild({ nsenter, network: '/proc/self/ns/net' });
    const request = { listen: { host: '127.0.0.1', port: 0 }, onEarly: () => {} };
    await expectFault(lost.open(request, deadline()), 'rejected');
    await until('it is gone', async () => (await children()).length === 0);
    const nowhere = makeNetworkChild({ nsenter, network: '/nowhere' });
    await expectFault(nowhere.open(request, deadline()), 'unreachable');
  });

  it('exits with its parent, however that ended', async () => {
    const { spec } = await joined();
    const script = `
      import { makeDockerEngine } from ${JSON.stringify(new URL('../../../src/engines/docker/docker.ts', import.meta.url).href)};
      const options = ${JSON.stringify({ endpoint, isolation, installation: fixture.installation, stateFolder: fixture.stateFolder })};
      const engine = makeDockerEngine({ ...options, log: { info() {}, warn() {} } });
      const network = await engine.joinNetwork(${JSON.stringify(spec.id)}, AbortSignal.timeout(60_000));
      await network.connect(${JSON.stringify(echo)}, AbortSignal.timeout(60_000));
      console.log('connected');`;
    const other = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(createInterface({ input: other.stdout }), 'line');
    const [its] = await children(other.pid);
    expect(its).toBeDefined();
    other.kill('SIGKILL');
    await once(other, 'exit');
    await until('it is gone', () =>
      readdir(`/proc/${its}`).then(
        () => false,
        () => true,
      ),
    );
  });
});

describe('an unreachable engine', () => {
  it('leaves connections open, and reports the end of the instance on its return', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    (await subject.dial(spec.id, echoPort)).destroy();
    if (!('socketPath' in endpoint)) return expect.fail('the engine is not on a socket');
    const { listener, cut, mend } = makeCuttable(endpoint.socketPath);
    await withSocket(fixture, listener, async (socketPath) => {
      const engine = fixture.make({ endpoint: { socketPath } });
      const network = await engine.joinNetwork(spec.id, deadline());
      const stream = await network.connect(echo, deadline());
      cut();
      stream.write('a');
      expect(String((await once(stream, 'data'))[0])).toBe('a');
      expect(await says(network, echo)).toBe('hello');
      await fixture.engine.halt(spec.id, 5_000, deadline());
      mend();
      await network.ended;
      await engine.stop();
    });
  });

  it('closes everything at stop()', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const engine = fixture.make();
    const network = await engine.joinNetwork(spec.id, deadline());
    const { pathInside } = await engine.listenUnix(spec.id, (connection) => connection.end(), deadline());
    await network.listen({ host: '', port: 7004 }, (connection) => connection.end(), deadline());
    await engine.stop();
    await network.ended;
    await until('no process is left', async () => (await children()).length === 0);
    // A killed process has no command line any more some time before the kernel closes its sockets.
    await until('the listener is closed', () =>
      fixture.engine.dial(spec.id, 7004, deadline()).then(
        (stream) => void stream.on('error', () => {}).destroy(),
        (error: unknown) => error instanceof EngineFault && error.kind === 'busy',
      ),
    );
    await expect(fixture.connectUnix(spec.id, pathInside)).rejects.toThrow();
  });
});

describe('sockets in an instance', () => {
  let spec: EngineSpec;
  beforeEach(async () => {
    spec = subject.spec();
    await subject.ensure(spec);
  });

  it('work in a folder with a long name, and leave no handle', async () => {
    const stateFolder = `${await fixture.hostFolder()}/${'long'.repeat(30)}`;
    const engine = fixture.make({ stateFolder });
    const far = subject.spec();
    await engine.ensure(far, deadline());
    const { pathInside, close } = await engine.listenUnix(far.id, (connection) => connection.end('in'), deadline());
    expect(await text(await fixture.connectUnix(far.id, pathInside))).toBe('in');
    expect(
      (await subject.exec(far.id, 'rm', '-f', pathInside)).exitCode,
      'the instance can not remove the socket',
    ).not.toBe(0);
    // Warnings of leaked file handles.
    const warned: string[] = [];
    const note = ({ message }: Error): void => void warned.push(message);
    process.on('warning', note);
    subject.after(async () => process.off('warning', note));
    close();
    for (let n = 0; n < 40; n++) (await engine.listenUnix(far.id, () => {}, deadline())).close();
    const folder = `${stateFolder}/${far.id}/sockets`;
    await until('they are gone from the folder', async () => (await readdir(folder)).length === 0);
    const open = (await openFiles()).filter((file) => file.includes(stateFolder));
    expect(open.length, 'all, or all but the last').toBeLessThan(5);
    expect(warned).toEqual([]);
  });

  it('accept a bounded number of connections', async () => {
    let taken = 0;
    const { pathInside } = await fixture.engine.listenUnix(
      spec.id,
      (connection) => {
        taken++;
        connection.resume();
      },
      deadline(),
    );
    const all = await Promise.all(
      Array.from({ length: 100 }, async () => {
        const one = await fixture.connectUnix(spec.id, pathInside);
        subject.after(async () => one.destroy());
        return one.on('error', () => {}).resume();
      }),
    );
    await until(
      'the rest is sent away',
      async () => all.filter(({ readableEnded, destroyed }) => readableEnded || destroyed).length === 36,
    );
    expect(taken).toBe(64);
  });

  it('are removed by a halt, and before the next run, when an earlier process left them', async () => {
    const folder = `${fixture.stateFolder}/${spec.id}/sockets`;
    const isThere = (): Promise<boolean> =>
      readdir(folder).then(
        (names) => names.length > 0,
        () => false,
      );
    await mkdir(folder, { recursive: true });
    await writeFile(`${folder}/left`, '');
    await subject.ensure({ ...spec, files: [...spec.files, control('more', 'text')] });
    expect(await isThere(), 'the socket stays during the run').toBe(true);
    await fixture.engine.halt(spec.id, 5_000, deadline());
    expect(await isThere()).toBe(false);
    await mkdir(folder, { recursive: true });
    await writeFile(`${folder}/left`, '');
    await subject.ensure(spec);
    expect(await isThere()).toBe(false);
  });

  it('are absent in the next run after a run ended by itself', async () => {
    const { pathInside } = await fixture.engine.listenUnix(spec.id, (connection) => connection.end('in'), deadline());
    await fixture.stopOutside(spec.id);
    await until('it is gone', async () => (await readdir(`${fixture.stateFolder}/${spec.id}/sockets`)).length === 0);
    await subject.ensure(spec);
    await expect(fixture.connectUnix(spec.id, pathInside)).rejects.toThrow();
  });
});
