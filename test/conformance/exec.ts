/** Commands with open streams, and followed logs. */
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import type { ExecRequest, OpenExec } from '../../src/engines/contract.ts';
import type { InstanceId } from '../../src/domain/kernel/ids.ts';
import { atLevel } from '../fixtures/level.ts';
import { control, deadline, expectFault, newInstanceId, skipWithout, type Subject } from './subject.ts';

const mebibyte = 1024 * 1024;

async function open(
  subject: Subject,
  id: InstanceId,
  command: string[],
  more: Partial<ExecRequest> = {},
): Promise<OpenExec> {
  const execRequest = { command, env: {}, terminal: null, ...more };
  const running = await subject.fixture.engine.openExec(id, execRequest, deadline());
  subject.after(() => running.kill().catch(() => {}));
  return running;
}

/** Output and exit of a command with this input. */
async function outcome(running: OpenExec, input = ''): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  running.stdin.end(input);
  const [stdout, stderr, exitCode] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
  return { exitCode, stdout, stderr };
}

export function describeOpenExec(current: () => Subject): void {
  const started = async (
    execRequest: Parameters<Subject['spec']>[0] = {},
  ): Promise<{ subject: Subject; id: InstanceId }> => {
    const subject = current();
    const spec = subject.spec({ memoryMiB: 128, pidsLimit: 256, ...execRequest });
    await subject.ensure(spec);
    return { subject, id: spec.id };
  };

  describe('openExec', () => {
    it('ends the command’s input, and delivers the output that follows', async () => {
      const { subject, id } = await started();
      const running = await open(subject, id, ['cat']);
      running.stdin.write('one\n');
      expect(String((await once(running.stdout, 'data'))[0])).toBe('one\n');
      running.stdout.pause();
      expect(await outcome(running, 'two ⛵\n')).toEqual({ exitCode: 0, stdout: 'two ⛵\n', stderr: '' });
    });

    it('carries a megabyte of input back byte for byte', async () => {
      const { subject, id } = await started();
      const running = await open(subject, id, ['cat']);
      const sent = Buffer.from(Array.from({ length: mebibyte }, (_, at) => (at * 7919) % 251));
      running.stdin.end(sent);
      expect(sent.equals(await buffer(running.stdout))).toBe(true);
      expect(await running.exited).toBe(0);
    });

    it('separates stdout and stderr, each in order', async () => {
      const { subject, id } = await started();
      const script = Array.from({ length: 200 }, (_, n) => `echo out ${n}; echo err ${n} >&2`).join('; ');
      const { exitCode, stdout, stderr } = await outcome(await open(subject, id, ['sh', '-c', script]));
      expect(exitCode).toBe(0);
      for (const [name, said] of [
        ['out', stdout],
        ['err', stderr],
      ])
        expect(said).toBe(Array.from({ length: 200 }, (_, n) => `${name} ${n}\n`).join(''));
    });

    it('reports the exit code, 128 plus the signal for a killed command', async () => {
      const { subject, id } = await started();
      const codeOf = async (...command: string[]) => (await outcome(await open(subject, id, command))).exitCode;
      expect(await codeOf('true')).toBe(0);
      expect(await codeOf('sh', '-c', 'exit 42')).toBe(42);
      expect(await codeOf('sh', '-c', 'exit 255')).toBe(255);
      expect(await codeOf('sh', '-c', 'kill -9 $$')).toBe(137);
      expect(await codeOf('false')).toBe(1);
    });

    it('ends a missing program with 127 and an unrunnable one with 126, explained on stderr', async () => {
      const { subject, id } = await started({ files: [control('note', 'text', 0o644)] });
      const missing = await outcome(await open(subject, id, ['no-such-command']));
      expect(missing).toMatchObject({ exitCode: 127, stdout: '' });
      expect(missing.stderr).toContain('no-such-command');
      const unfit = await outcome(await open(subject, id, ['/etc/berth/note']));
      expect(unfit).toMatchObject({ exitCode: 126, stdout: '' });
      expect(unfit.stderr).toMatch(/permission denied/i);
    });

    it('passes names and values of the environment unchanged', async () => {
      const { subject, id } = await started();
      const env = {
        PLAIN: 'x',
        QUOTES: `'"\`$HOME\\`,
        LINES: 'one\ntwo\n',
        EMOJI: '⚓ 🐳',
        'odd.name': 'a=b',
        EMPTY: '',
      };
      const { exitCode, stdout } = await outcome(await open(subject, id, ['env'], { env }));
      expect(exitCode).toBe(0);
      for (const [name, value] of Object.entries(env)) expect(`\n${stdout}`).toContain(`\n${name}=${value}\n`);
    });

    it('delivers a hundred megabytes to a slow reader with back-pressure', async () => {
      const { subject, id } = await started();
      const total = 100_000_000;
      const running = await open(subject, id, ['head', '-c', String(total), '/dev/zero']);
      const before = heapBytes();
      let over = false;
      running.exited.then(
        () => (over = true),
        () => {},
      );
      await subject.fixture.time.sleep(1_500);
      expect(running.stdout.readableLength, 'bounded while nobody reads').toBeLessThan(mebibyte);
      expect(over, 'the command waits').toBe(false);
      let [bytes, pauses] = [0, 0];
      for await (const chunk of running.stdout) {
        bytes += Buffer.from(chunk).length;
        if (bytes > (pauses + 1) * (total / 4)) {
          pauses++;
          await subject.fixture.time.sleep(50);
          expect(await settlesBelow(before + 4 * mebibyte), 'buffered bytes').toBe(true);
        }
      }
      expect(bytes).toBe(total);
      expect(await running.exited).toBe(0);
    });

    it('loses no output to a reader that starts after the command ended', async () => {
      const { subject, id } = await started();
      // Larger than the buffers of engine and kernel, at varying offsets.
      const sizes = Array.from({ length: 20 }, (_, n) => 1_100_000 + n * 20_000);
      const received = sizes.map(async (size) => {
        const running = await open(subject, id, ['head', '-c', String(size), '/dev/zero']);
        await subject.fixture.time.sleep(4_000);
        return (await outcome(running)).stdout.length;
      });
      expect(await Promise.all(received)).toEqual(sizes);
    });

    it('loses no exit code and no output of many short commands, 20 at once', async () => {
      const { subject, id } = await started();
      const count = atLevel({ short: 60, long: 500 });
      const size = 200_000;
      /** Input that ends at once, stays unread, also after the command, or ends after it. */
      const kinds: ((n: number) => Promise<void>)[] = [
        async (n) => {
          const code = n % 125;
          const ended = await outcome(await open(subject, id, ['sh', '-c', `exit ${code}`]));
          expect(ended, `command ${n}`).toEqual({ exitCode: code, stdout: '', stderr: '' });
        },
        async (n) => {
          const running = await open(subject, id, ['head', '-c', String(size), '/dev/zero']);
          running.stdin.write('unread');
          await subject.fixture.time.sleep(n % 300);
          running.stdin.write('late');
          const ended = await outcome(running);
          expect([ended.stdout.length, ended.exitCode], `command ${n}`).toEqual([size, 0]);
        },
        async (n) => {
          const running = await open(subject, id, ['sh', '-c', 'exit 9']);
          running.stdout.resume();
          running.stderr.resume();
          expect(await running.exited, `command ${n}`).toBe(9);
          running.stdin.end('late');
        },
      ];
      let next = 0;
      const inTurn = async (): Promise<void> => {
        for (let n = next++; n < count; n = next++) await kinds[n % kinds.length]?.(n);
      };
      await Promise.all(Array.from({ length: 20 }, inTurn));
    });

    it('a destroyed stream blocks no other', async () => {
      const { subject, id } = await started();
      const running = await open(subject, id, ['head', '-c', '5000000', '/dev/zero']);
      running.stdout.destroy();
      expect(await running.exited).toBe(0);
    });

    it('a terminal echoes, resizes, and ends with Ctrl-D', async () => {
      const { subject, id } = await started();
      const running = await open(subject, id, ['sh'], { terminal: { columns: 100, rows: 40 } });
      const said = collect(running.stdout);
      await subject.until('the shell prompts', async () => said().length > 0);
      running.stdin.write('stty size\r');
      await subject.until('the first size', async () => said().includes('\r\n40 100\r\n'));
      expect(said()).toContain('stty size\r\n');
      await running.resize({ columns: 77, rows: 33 });
      running.stdin.write('stty size\r');
      await subject.until('the next size', async () => said().includes('\r\n33 77\r\n'));
      running.stdin.write('sh -c "exit 5"\r');
      await subject.until('it is echoed', async () => said().includes('sh -c "exit 5"\r\n'));
      // A key is lost while the shell reconfigures its terminal.
      const keys = setInterval(() => running.stdin.write('\x04'), 250);
      const exitCode = await running.exited.finally(() => clearInterval(keys));
      expect(exitCode).toBe(5);
      await running.resize({ columns: 1, rows: 1 });
      expect(await text(running.stderr)).toBe('');
    });

    it('a terminal takes every key, Ctrl-P and Ctrl-Q included, and Ctrl-C interrupts', async () => {
      const { subject, id } = await started();
      const running = await open(subject, id, ['sh'], { terminal: { columns: 80, rows: 25 } });
      const said = collect(running.stdout);
      running.stdin.write('cat\r');
      await subject.until('it has echoed', async () => said().includes('cat\r\n'));
      running.stdin.write('a\x10\x11b\r');
      await subject.until('cat echoes the keys', async () => said().includes('a\x10') && said().includes('b\r\n'));
      running.stdin.write('\x03');
      await subject.until('it is interrupted', async () => said().includes('^C'));
      running.stdin.write('echo code $?\r');
      await subject.until('the shell goes on', async () => said().includes('code 130\r\n'));
      running.stdin.write('exit 7\r');
      expect(await running.exited).toBe(7);
    });

    it('kill ends a command with 137, and succeeds after the end', async () => {
      const { subject, id } = await started();
      const running = await open(subject, id, ['sleep', '1000']);
      await running.kill();
      expect(await running.exited).toBe(137);
      await running.kill();
      const ended = await open(subject, id, ['true']);
      await ended.exited;
      await ended.kill();
    });

    it('other signals are delivered to the command', async () => {
      const { subject, id } = await started();
      for (const [signal, exitCode] of [
        ['TERM', 143],
        ['HUP', 129],
        ['USR1', 138],
      ] as const) {
        const running = await open(subject, id, ['sleep', '1000']);
        await running.kill(signal);
        expect(await running.exited, signal).toBe(exitCode);
        await running.kill(signal);
      }
    });

    it('kill ends all descendants and no other process', async (context) => {
      const { subject, id } = await started();
      skipWithout('shell', subject, context);
      const other = await open(subject, id, ['sleep', '2000']);
      const script =
        'sleep 1001 & (sleep 1002 &) ; setsid sh -c "sleep 1003 & sleep 1004" & sh -c "sh -c \\"sleep 1005; :\\"; :" & ' +
        'trap "" TERM HUP INT; sleep 1006; :';
      const running = await open(subject, id, ['sh', '-c', script]);
      const sleepers = async (): Promise<string[]> =>
        [...(await subject.exec(id, 'ps')).stdout.matchAll(/^ *\d+ \S+ +sleep (\d00\d)$/gm)].map(
          ([, seconds]) => seconds ?? '',
        );
      await subject.until('all children sleep', async () => (await sleepers()).length === 7);
      await running.kill();
      expect(await running.exited).toBe(137);
      await subject.until('the children are gone', async () => (await sleepers()).length < 2);
      expect(await sleepers()).toEqual(['2000']);
      await other.kill();
    });

    it('kill ends a fork bomb', async (context) => {
      const { subject, id } = await started();
      skipWithout('shell', subject, context);
      const relay = 'next() { (sleep 0.01; next) & }; next; next; next; echo; sleep 1000';
      const running = await open(subject, id, ['sh', '-c', relay]);
      await once(running.stdout, 'data');
      await running.kill();
      await subject.fixture.time.sleep(100);
      expect((await subject.exec(id, 'ps')).stdout).not.toMatch(/sleep 0|next/);
    });

    it('the end of the instance ends the streams with not_found', async () => {
      const { subject, id } = await started();
      const running = await open(subject, id, ['cat']);
      const [stdout, stderr] = [text(running.stdout), text(running.stderr)];
      await subject.fixture.stopOutside(id);
      await expectFault(running.exited, 'not_found');
      expect(await stdout).toBe('');
      expect(await stderr).toBe('');
      await running.kill();
    });

    it('the signal ends the opening only', async () => {
      const { subject, id } = await started();
      const { engine } = subject.fixture;
      const execRequest: ExecRequest = { command: ['cat'], env: {}, terminal: null };
      const signal = new AbortController();
      const running = await engine.openExec(id, execRequest, signal.signal);
      signal.abort();
      await subject.fixture.time.sleep(50);
      expect(await outcome(running, 'still here')).toMatchObject({ exitCode: 0, stdout: 'still here' });
      await expectFault(engine.openExec(id, execRequest, signal.signal), 'unreachable');
    });

    it('is not_found for a stopped or absent instance', async () => {
      const { subject, id } = await started();
      await subject.fixture.engine.halt(id, 5_000, deadline());
      await expectFault(open(subject, id, ['true']), 'not_found');
      await expectFault(open(subject, newInstanceId(), ['true']), 'not_found');
    });

    it('keeps fifty concurrent commands separate', async () => {
      // A start takes up to 16 processes, which count before the command runs.
      const { subject, id } = await started({ pidsLimit: 1_024 });
      const all = await Promise.all(Array.from({ length: 50 }, () => open(subject, id, ['cat'])));
      const outcomes = await Promise.all(all.map((running, n) => outcome(running, `I am ${n}`)));
      expect(outcomes.map(({ stdout }) => stdout)).toEqual(all.map((_, n) => `I am ${n}`));
      expect(outcomes.every(({ exitCode }) => exitCode === 0)).toBe(true);
    });
  });
}

setFlagsFromString('--expose-gc');
const collectGarbage: unknown = runInNewContext('gc');

/** After garbage collection. */
export function heapBytes(): number {
  if (typeof collectGarbage === 'function') collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Waits for freed buffers, which are released after their collection. */
export async function settlesBelow(bytes: number): Promise<boolean> {
  for (let tries = 0; tries < 100; tries++) {
    if (heapBytes() < bytes) return true;
    await delay(20);
  }
  return false;
}

/** Output so far. */
function collect(stream: Readable): () => string {
  let said = '';
  stream.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  return () => said;
}
