/**
 * Commands with open streams on Docker: broken connections, cleanup, parsing of the engine's
 * messages.
 */
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, it } from 'vitest';
import { parseStartFailure } from '../../../src/engines/docker/exec/exec-start.ts';
import { processGroupOf } from '../../../src/engines/docker/host/process-group.ts';
import { makeFrameReader } from '../../../src/engines/docker/exec/log-frames.ts';
import { makeLineReader } from '../../../src/engines/log-lines.ts';
import type { Engine, EngineSpec, LogLine } from '../../../src/engines/contract.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { heapBytes, settlesBelow } from '../../conformance/exec.ts';
import { deadline, expectFault, faultOf, until, type Subject } from '../../conformance/subject.ts';
import { endpoint, onDocker, pauseContainer, type DockerFixture } from './docker-fixture.ts';
import { makeCuttable, withSocket } from './sockets.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

const cat = { command: ['cat'], env: {}, terminal: null };

describe('a broken connection to the engine', () => {
  let spec: EngineSpec;
  beforeEach(async () => {
    spec = subject.spec();
    await subject.ensure(spec);
  });

  /** Runs the test with a socket between engine object and daemon, which can be cut. */
  async function cutOff(work: (engine: Engine, cut: () => void) => Promise<void>): Promise<void> {
    if (!('socketPath' in endpoint)) return expect.fail('the engine is not on a socket');
    const { listener, cut } = makeCuttable(endpoint.socketPath);
    await withSocket(fixture, listener, async (socketPath) => {
      const engine = fixture.make({ endpoint: { socketPath } });
      await work(engine, cut);
      await engine.stop();
    });
  }

  it('rejects the exit as unreachable, and ends the streams', async () => {
    await cutOff(async (engine, cut) => {
      const running = await engine.openExec(spec.id, cat, deadline());
      running.stdin.write('hello');
      expect(String((await once(running.stdout, 'data'))[0])).toBe('hello');
      cut();
      await expectFault(running.exited, 'unreachable');
      await expectFault(running.kill(), 'unreachable');
      expect(await text(running.stderr)).toBe('');
    });
  });

  it('fails a followed log as unreachable', async () => {
    await cutOff(async (engine, cut) => {
      const log = await engine.followLogs(spec.id, 'console', {}, deadline());
      const reading = Array.fromAsync(log);
      reading.catch(() => {});
      await until(
        'it reads',
        async () => (await Array.fromAsync(await engine.logs(spec.id, 'console', {}, deadline()))).length === 3,
      );
      cut();
      await expectFault(reading, 'unreachable');
    });
  });
});

describe('signals and memory', () => {
  it('delivers a signal to the process group: the trap and the children', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const script = 'trap "echo caught; exit 7" INT; echo ready; sleep 1000; echo no';
    const running = await fixture.engine.openExec(spec.id, { ...cat, command: ['sh', '-c', script] }, deadline());
    let said = '';
    running.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    await until('its trap is set', async () => said === 'ready\n');
    await running.kill('INT');
    expect(await running.exited).toBe(7);
    expect(said).toBe('ready\ncaught\n');
  });

  it('does not retain whole reads for small unread pieces', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const script = 'n=0; while [ $n -lt 1500 ]; do head -c 20000 /dev/zero; printf x >&2; n=$((n + 1)); done';
    const before = heapBytes();
    const running = await fixture.engine.openExec(spec.id, { ...cat, command: ['sh', '-c', script] }, deadline());
    let bytes = 0;
    for await (const chunk of running.stdout) {
      bytes += Buffer.from(chunk).length;
      // Slow enough that reads return much of both.
      await delay(1);
    }
    expect(bytes).toBe(1_500 * 20_000);
    expect(running.stderr.readableLength).toBe(1_500);
    expect(await settlesBelow(before + 4 * 1024 * 1024)).toBe(true);
    expect(await text(running.stderr)).toBe('x'.repeat(1_500));
  });
});

describe('cleanup', () => {
  it('closes the streams when the engine object stops, and the command goes on', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const engine = fixture.make();
    const running = await engine.openExec(spec.id, { ...cat, command: ['sleep', '1000'] }, deadline());
    await engine.stop();
    await expectFault(running.exited, 'unreachable');
    expect((await subject.exec(spec.id, 'ps')).stdout).toContain('sleep 1000');
  });

  it('leaves no command of an aborted opening', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const options = { ...cat, command: ['sleep', '1000'] };
    const sleeps = async () => (await subject.exec(spec.id, 'ps')).stdout.includes('sleep 1000');
    for (const ms of [1, 5, 10, 20, 40, 60, 80]) {
      await fixture.engine.openExec(spec.id, options, AbortSignal.timeout(ms)).then(
        (running) => running.kill(),
        () => {},
      );
    }
    expect(await until('all are gone', async () => !(await sleeps()))).toBe(true);
  });

  it('reports busy for a kill while the instance is paused, and kills it afterwards', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const running = await fixture.engine.openExec(spec.id, cat, deadline());
    const container = fixture.docker.getContainer(containerName(spec.id));
    await pauseContainer(container);
    await expectFault(running.kill(), 'busy');
    await expectFault(fixture.engine.openExec(spec.id, cat, deadline()), 'busy');
    await container.unpause();
    await running.kill();
    expect(await running.exited).toBe(137);
  });
});

describe('an instance that has used up its processes', () => {
  async function withoutProcesses(before?: (spec: EngineSpec) => Promise<() => unknown>) {
    const spec = subject.spec({ pidsLimit: 16 });
    await subject.ensure(spec);
    const after = await before?.(spec);
    const full = await subject.exec(spec.id, 'sh', '-c', 'while :; do sleep 1000 & done');
    expect(full).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("can't fork") });
    const { State } = await fixture.inspect(spec.id);
    const folder = (await processGroupOf(State.Pid)) ?? expect.fail('no control group');
    const pids = (await readFile(path.join(folder, 'cgroup.procs'), 'utf8')).trim().split('\n').map(Number);
    const file = path.join(folder, 'pids.max');
    after?.();
    return {
      spec,
      others: pids.filter((pid) => pid !== State.Pid),
      limit: () => readFile(file, 'utf8').then(Number),
      setLimit: (to: number) => writeFile(file, String(to)),
    };
  }

  it('lets its owner in, who can end them, and has its own limit again afterwards', async () => {
    const { spec, limit } = await withoutProcesses();
    for (let again = 0; again < 3; again++) {
      const { exitCode, stdout } = await subject.exec(spec.id, 'sh', '-c', 'true & wait; echo in');
      expect([exitCode, stdout]).toEqual([0, 'in\n']);
    }
    const two = await Promise.all([0, 1].map(() => fixture.engine.openExec(spec.id, cat, deadline())));
    expect(await limit()).toBeGreaterThan(16);
    for (const running of two) running.stdin.end();
    await Promise.all(two.map(({ exited }) => exited));
    await until('the loan has ended', async () => (await limit()) === 16);
    expect(await subject.exec(spec.id, 'killall', 'sleep')).toMatchObject({ exitCode: 0 });
    expect(await subject.exec(spec.id, 'sh', '-c', 'true & wait')).toMatchObject({ exitCode: 0 });
  });

  it('gets its limit back, and runs on, once a server follows one that crashed in between', async () => {
    const { spec, others, limit, setLimit } = await withoutProcesses();
    await setLimit(500);
    for (const pid of others) process.kill(pid, 'SIGSTOP');
    const later = await fixture.again();
    subject.after(() => later.stop());
    await later.observe([spec.id], deadline());
    expect(await limit()).toBe(16);
    await until('its processes run', async () => {
      const stats = await Promise.all(others.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8')));
      return stats.every((stat) => !stat.includes(') T '));
    });
  });

  it('answers its owner and ends while root inside stops all that enters', async () => {
    const { spec } = await withoutProcesses(async ({ id }) => {
      const loop = 'read go; i=0; while [ "$i" -lt 10000000 ]; do kill -STOP -1; i=$((i+1)); done';
      const stopper = await fixture.engine.openExec(id, { ...cat, command: ['sh', '-c', loop] }, deadline());
      return () => stopper.stdin.write('go\n');
    });
    await Promise.allSettled([subject.exec(spec.id, 'true')]);
    const usage = await fixture.engine.usage([spec.id], deadline(), { countersOnly: true });
    expect(usage.get(spec.id)?.processes).toBeGreaterThan(0);
    await fixture.engine.halt(spec.id, 0, deadline());
    expect(await subject.observe(spec.id)).toMatchObject({ running: false });
  });
});

describe('parsing of start failures', () => {
  const of = (cause: string): string =>
    `OCI runtime exec failed: exec failed: unable to start container process: ${cause}: unknown\r\n`;

  it.each([
    ['exec: "nope": executable file not found in $PATH', 127, 'nope: not found'],
    ['exec: "/nope": stat /nope: no such file or directory', 127, 'nope: not found'],
    ['exec: "/root": is a directory', 126, 'nope: is a directory'],
    ['exec: "/root/x": permission denied', 126, 'nope: permission denied'],
    ['exec /root/x: exec format error', 126, 'nope: exec format error'],
  ])('%s', (cause, exitCode, said) => {
    expect(parseStartFailure(of(cause), 'nope')).toEqual({ exitCode, text: said });
  });

  it('throws a fault for a failure of the engine', async () => {
    const faultIn = (said: string) => faultOf(new Promise((resolve) => resolve(parseStartFailure(said, 'nope'))));
    const ofLimit = [
      'read init-p: connection reset by peer',
      'procReady not received',
      'fork/exec /x: resource temporarily unavailable',
    ];
    for (const cause of ofLimit)
      expect(await faultIn(of(cause))).toMatchObject({
        kind: 'no_capacity',
        retry: true,
        message: expect.stringMatching(/limit of processes; .* or restart the instance$/),
      });
    expect(await faultIn(of('something new'))).toMatchObject({ kind: 'rejected', retry: true });
    expect(await faultIn('')).toMatchObject({ kind: 'rejected', retry: true });
  });
});

describe('log lines', () => {
  const frame = (source: 1 | 2, payload: string): Buffer => {
    const header = Buffer.alloc(8);
    header[0] = source;
    header.writeUInt32BE(Buffer.byteLength(payload), 4);
    return Buffer.concat([header, Buffer.from(payload)]);
  };
  const [first, second] = ['2026-01-02T03:04:05.678901234Z', '2026-01-02T03:04:06.000000000Z'];

  it('are assembled per stream from frames cut anywhere, with the time of the first piece', () => {
    const bytes = Buffer.concat([
      frame(1, `${first} begun `),
      frame(2, `${second} trouble\n`),
      frame(1, `${second} ended ⚓\n`),
      frame(1, `${second} last`),
    ]);
    const whole: LogLine[] = [
      { atMs: Date.parse(second), text: 'trouble', cut: false },
      { atMs: Date.parse(first), text: 'begun ended ⚓', cut: false },
      { atMs: Date.parse(second), text: 'last', cut: false },
    ];
    for (let size = 1; size <= bytes.length; size++) {
      const reader = makeFrameReader();
      const lines: LogLine[] = [];
      for (let at = 0; at < bytes.length; at += size) lines.push(...reader.push(bytes.subarray(at, at + size)));
      expect([...lines, ...reader.rest()], `chunks of ${size}`).toEqual(whole);
    }
  });

  it('are truncated at 16 KiB between characters, and the next line is complete', () => {
    const reader = makeLineReader();
    const long = `${'x'.repeat(16 * 1024 - 1)}⚓⚓`;
    const lines = reader.push(Buffer.from(`${long}\n\nnext\nunfinished`));
    expect(lines).toEqual([
      { atMs: null, text: 'x'.repeat(16 * 1024 - 1), cut: true },
      { atMs: null, text: '', cut: false },
      { atMs: null, text: 'next', cut: false },
    ]);
    expect(reader.rest()).toEqual([{ atMs: null, text: 'unfinished', cut: false }]);
    const framed = makeFrameReader();
    expect(framed.push(Buffer.concat([frame(1, `${first} ${long}\n`), frame(1, `${second} next\n`)]))).toEqual([
      { atMs: Date.parse(first), text: 'x'.repeat(16 * 1024 - 1), cut: true },
      { atMs: Date.parse(second), text: 'next', cut: false },
    ]);
  });
});
