/** A terminal and its viewers, over a shell played by the test. */
import { PassThrough } from 'node:stream';
import { setImmediate as nextRound } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { makeTerminal, type Terminal } from '../../../src/control/compute/inside/terminals/terminal.ts';
import type { AttachedTerminal, TerminalMessage } from '../../../src/control/compute/inside/terminals/terminal-host.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import type { TerminalSize } from '../../../src/engines/contract.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { eventually } from '../../fixtures/control.ts';

const SIZE = { columns: 80, rows: 24 };
const LINE = `${'x'.repeat(1_022)}\r\n`;

interface Stage {
  terminal: Terminal;
  warnings: string[];
  stdin: PassThrough;
  stdout: PassThrough;
  end: (exitCode: number) => void;
  lose: (fault: EngineFault) => void;
}

function stage(resize: (size: TerminalSize) => Promise<void> = async () => {}): Stage {
  const { promise: exited, resolve, reject } = Promise.withResolvers<number>();
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const warnings: string[] = [];
  const over = (): void => {
    stdout.end();
    stderr.end();
  };
  const shell = {
    stdin,
    stdout,
    stderr,
    exited,
    resize,
    kill: async () => {
      over();
      resolve(137);
    },
  };
  const log = { warn: (_facts: object, text: string) => void warnings.push(text) };
  return {
    terminal: makeTerminal({ shell, size: SIZE, time: realTime, log, onViewers: () => {} }),
    warnings,
    stdin,
    stdout,
    end(exitCode) {
      over();
      resolve(exitCode);
    },
    lose(fault) {
      over();
      reject(fault);
    },
  };
}

/** A viewer that takes one message at a time. */
function viewer(attached: AttachedTerminal) {
  const reported = attached.messages[Symbol.asyncIterator]();
  const all: TerminalMessage[] = [];
  let text = '';
  const next = async (): Promise<TerminalMessage | undefined> => {
    const { done, value } = await reported.next();
    if (done || value === undefined) return undefined;
    all.push(value);
    if (value.kind === 'reset') text = '';
    if (value.kind === 'output') text += Buffer.from(value.bytes).toString();
    return value;
  };
  return {
    next,
    all,
    text: () => text,
    async readOn() {
      while ((await next()) !== undefined);
    },
    leave: attached.leave,
  };
}

/** Writes lines until the shell pauses. */
async function fill({ stdout }: Stage): Promise<number> {
  let lines = 0;
  for (let waits = 0; waits < 20;) {
    if (stdout.writableNeedDrain) {
      waits += 1;
      await nextRound();
      continue;
    }
    waits = 0;
    lines += 1;
    stdout.write(LINE);
    if (lines > 10_000) throw new Error('the shell is never held up');
  }
  return lines;
}

test('a lagging viewer pauses the shell, and gets all output afterwards', async () => {
  const stages = stage();
  const one = viewer(stages.terminal.attach(SIZE, true));
  stages.stdout.write('first\r\n');
  await one.next();
  const lines = await fill(stages);
  expect(lines * LINE.length).toBeLessThan(512 * 1024);
  void one.readOn();
  stages.stdout.write('last\r\n');
  await eventually(() => one.text().endsWith('last\r\n'));
  expect(one.text()).toBe(`first\r\n${LINE.repeat(lines)}last\r\n`);
  expect(one.all.some(({ kind }) => kind === 'reset')).toBe(false);
});

test('two lagging viewers pause the shell; the first to resume past its position gets a replay and unpauses it', async () => {
  const stages = stage();
  const [quick, slow] = [1, 2].map(() => viewer(stages.terminal.attach(SIZE, true)));
  if (!quick || !slow) throw new Error('two viewers');
  stages.stdout.write('first\r\n');
  await quick.next();
  await slow.next();
  for (let n = 0; n < 600; n++) {
    stages.stdout.write(LINE);
    await quick.next();
  }
  await fill(stages);
  stages.stdout.write('last\r\n');
  void slow.readOn();
  await eventually(() => slow.text().endsWith('last\r\n'));
  expect(slow.all.some(({ kind }) => kind === 'reset')).toBe(true);
  expect(slow.text()).toMatch(/^x{1022}\r\n/);
});

test('a viewer that leaves or joins unpauses the shell; without viewers it never pauses', async () => {
  const stages = stage();
  const one = viewer(stages.terminal.attach(SIZE, true));
  stages.stdout.write('first\r\n');
  await one.next();
  await fill(stages);
  const two = viewer(stages.terminal.attach(SIZE, false));
  await eventually(() => !stages.stdout.writableNeedDrain);
  two.leave();
  await fill(stages);
  one.leave();
  for (let n = 0; n < 2_000; n++) {
    stages.stdout.write(LINE);
    if (stages.stdout.writableNeedDrain) await eventually(() => !stages.stdout.writableNeedDrain);
  }
  expect(stages.terminal.viewers).toBe(0);
});

test("close unpauses the shell and sends the last message, as do exit, the instance's end and a lost connection", async () => {
  const ends: [(stages: Stage) => void, TerminalMessage][] = [
    [({ terminal }) => void terminal.close(), { kind: 'ended', exitCode: null, why: 'the terminal was closed' }],
    [({ end }) => end(3), { kind: 'ended', exitCode: 3, why: 'the shell ended' }],
    [
      ({ lose }) => lose(new EngineFault('not_found', 'the instance ended', { retry: false })),
      { kind: 'ended', exitCode: null, why: 'the instance ended' },
    ],
    [
      ({ lose }) => lose(new EngineFault('unreachable', 'the engine is away', { retry: true })),
      { kind: 'lost', why: 'the engine is away' },
    ],
  ];
  for (const [end, last] of ends) {
    const stages = stage();
    const one = viewer(stages.terminal.attach(SIZE, true));
    stages.stdout.write('shown\r\n');
    await one.next();
    end(stages);
    await one.readOn();
    expect(one.all.at(-1)).toEqual(last);
    expect(await stages.terminal.ended).toEqual(last);
    expect(stages.terminal.viewers).toBe(0);
    const late = viewer(stages.terminal.attach(SIZE, false));
    await late.readOn();
    expect([late.text(), late.all.at(-1)]).toEqual(['shown\r\n', last]);
  }
  const stages = stage();
  const stuck = viewer(stages.terminal.attach(SIZE, true));
  stages.stdout.write('shown\r\n');
  await stuck.next();
  await fill(stages);
  await stages.terminal.close();
  expect(await stages.terminal.ended).toMatchObject({ kind: 'ended' });
});

test('input waits for the shell, and is dropped after the end', async () => {
  const stages = stage();
  const attached = stages.terminal.attach(SIZE, true);
  let typed = false;
  const typing = attached.type(Buffer.alloc(200_000)).then(() => (typed = true));
  await nextRound();
  expect(typed).toBe(false);
  stages.stdin.resume();
  await typing;
  stages.end(0);
  await stages.terminal.ended;
  await attached.type(Buffer.from('late'));
  attached.leave();
  await attached.type(Buffer.from('later'));
  expect(stages.warnings).toEqual([]);
});

/** A terminal whose shell accepts sizes on demand. */
function slowlySized() {
  const sizes: string[] = [];
  const waiting: (() => void)[] = [];
  const resize = ({ columns, rows }: TerminalSize): Promise<void> => {
    sizes.push(`${columns}x${rows}`);
    return new Promise((resolve) => waiting.push(resolve));
  };
  return { stage: stage(resize), sizes, waiting, let: () => waiting.shift()?.() };
}

test('sends one size at a time, ending with the last', async () => {
  const { stage: stages, sizes, waiting, let: go } = slowlySized();
  const attached = stages.terminal.attach(SIZE, true);
  for (let n = 1; n <= 1_000; n++) attached.resize({ columns: 80 + n, rows: 24 });
  await nextRound();
  expect({ sizes, underWay: waiting.length }).toEqual({ sizes: ['81x24'], underWay: 1 });
  go();
  await nextRound();
  expect(sizes).toEqual(['81x24', '1080x24']);
  go();
  await nextRound();
  attached.resize(SIZE);
  expect(sizes).toEqual(['81x24', '1080x24', '80x24']);
});

test('redraws once for all viewers that join during a resize, at the last size', async () => {
  const { stage: stages, sizes, let: go } = slowlySized();
  stages.stdout.write('\x1b[?1049h');
  await nextRound();
  const first = stages.terminal.attach(SIZE, true);
  first.resize({ columns: 90, rows: 24 });
  for (let n = 0; n < 100; n++) await viewer(stages.terminal.attach({ columns: 90, rows: 24 }, false)).next();
  first.resize({ columns: 100, rows: 24 });
  first.resize({ columns: 90, rows: 24 });
  expect(sizes).toEqual(['90x24']);
  for (const seen of [2, 3]) {
    go();
    await eventually(() => sizes.length === seen);
  }
  go();
  await nextRound();
  expect(sizes).toEqual(['90x24', '90x23', '90x24']);
});
