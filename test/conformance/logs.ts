/** Logs: read by range, and followed. */
import { describe, expect, it } from 'vitest';
import type { LogLine, LogRange, EngineLogSource } from '../../src/engines/contract.ts';
import type { InstanceId } from '../../src/domain/kernel/ids.ts';
import {
  control,
  deadline,
  expectFault,
  newInstanceId,
  skipWithout,
  type Subject,
  type SpecOptions,
} from './subject.ts';

const said = ['berth: services ssh notebook', 'berth: notebook ready', 'berth: init none'];
/** A start file with instructions for the simulated engine. */
const startWith = (played: string, script: string): string =>
  `#!/bin/sh\n${played}${script}\nwhile :; do sleep 1; done\n`;

export function describeLogs(current: () => Subject): void {
  const started = async (options: SpecOptions = {}, start?: string): Promise<{ subject: Subject; id: InstanceId }> => {
    const subject = current();
    const spec = subject.spec(options);
    const files = start === undefined ? spec.files : [control('start', start, 0o755), ...spec.files.slice(1)];
    await subject.ensure({ ...spec, files });
    return { subject, id: spec.id };
  };
  const read = (subject: Subject, id: InstanceId, range: LogRange = {}, source: EngineLogSource = 'console') =>
    subject.fixture.engine.logs(id, source, range, deadline()).then((lines) => Array.fromAsync(lines));
  const textsOf = (lines: LogLine[]): string[] => lines.map(({ text }) => text);
  /** Reads in the background. */
  const follow = async (
    { subject, id }: { subject: Subject; id: InstanceId },
    range: LogRange = {},
    source: EngineLogSource = 'console',
  ) => {
    const lines: (LogLine & { heardMs: number })[] = [];
    const leave = new AbortController();
    subject.after(async () => leave.abort());
    const log = await subject.fixture.engine.followLogs(id, source, range, leave.signal);
    const over = (async () => {
      for await (const line of log) lines.push({ ...line, heardMs: subject.fixture.time.now() });
    })();
    over.catch(() => {});
    return { lines, over, leave: () => leave.abort() };
  };

  describe('logs', () => {
    it('are the last lines of the console, oldest first, also after a stop', async () => {
      const { subject, id } = await started();
      await subject.until('it has said its lines', async () => (await read(subject, id)).length >= said.length);
      expect(textsOf(await read(subject, id))).toEqual(said);
      expect(textsOf(await read(subject, id, { tail: 1 }))).toEqual(said.slice(2));
      expect(textsOf(await read(subject, id, { tail: 0 }))).toEqual([]);
      expect(textsOf(await read(subject, id, { tail: 100 }))).toEqual(said);
      await subject.fixture.engine.halt(id, 5_000, deadline());
      expect(textsOf(await read(subject, id))).toEqual(subject.fixture.lacks.rootDisk === undefined ? said : []);
    });

    const slowly = startWith(
      Array.from({ length: 5 }, (_, n) => `# berth-sim: say after ${(n + 1) * 300}ms line ${n}\n`).join(''),
      "echo 'berth: services ssh notebook'; for n in 0 1 2 3 4; do sleep 0.3; echo line $n; done; trap 'exit 0' TERM",
    );
    /** Longer than the follow takes to start. */
    const goingOn = startWith(
      Array.from({ length: 200 }, (_, n) => `# berth-sim: say after ${(n + 1) * 300}ms line ${n}\n`).join(''),
      "echo 'berth: services ssh notebook'; trap 'exit 0' TERM; n=0; while :; do sleep 0.3; echo line $n; n=$((n+1)); done",
    );
    const ofSlow = (lines: LogLine[]): LogLine[] => lines.filter(({ text }) => text.startsWith('line'));

    it('carry their time, and are read by time range', async () => {
      const { subject, id } = await started({}, slowly);
      const lines = await subject.until('five lines', async () => {
        const now = ofSlow(await read(subject, id));
        return now.length === 5 && now;
      });
      const times = lines.map(({ atMs }) => atMs ?? expect.fail('a line without a time'));
      expect(times.toSorted((a, b) => a - b)).toEqual(times);
      expect((times[4] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(1_000);
      const [sinceMs, untilMs] = [times[1] ?? 0, times[3] ?? 0];
      expect(textsOf(await read(subject, id, { sinceMs, untilMs }))).toEqual(['line 1', 'line 2']);
      expect(textsOf(await read(subject, id, { sinceMs }))).toEqual(['line 1', 'line 2', 'line 3', 'line 4']);
      expect(textsOf(await read(subject, id, { untilMs, tail: 2 }))).toEqual(['line 1', 'line 2']);
      expect(textsOf(await read(subject, id, { sinceMs, tail: 1 }))).toEqual(['line 4']);
    });

    it('follow within a second, and end with the instance', async () => {
      const container = await started({}, goingOn);
      const { lines, over } = await follow(container);
      // Earlier output could not be attributed to this second.
      const followedMs = container.subject.fixture.time.now();
      const later = () => lines.filter(({ atMs }) => (atMs ?? 0) > followedMs);
      await container.subject.until('three lines written while following', async () => later().length >= 3);
      const { slackMs } = container.subject.fixture.time;
      for (const { atMs, heardMs } of later()) expect(heardMs - (atMs ?? 0)).toBeLessThan(1_000 + slackMs);
      await container.subject.fixture.stopOutside(container.id);
      await over;
      const texts = textsOf(ofSlow(lines));
      expect(texts).toEqual(texts.map((_, n) => `line ${n}`));
      const after = await follow(container, { tail: 2 });
      await after.over;
      expect(textsOf(after.lines)).toEqual(texts.slice(-2));
    });

    it('follow from a time or a number of lines without gaps or duplicates', async () => {
      const container = await started({}, slowly);
      const first = await follow(container);
      await container.subject.until('two lines', async () => ofSlow(first.lines).length >= 2);
      const sinceMs = ofSlow(first.lines)[1]?.atMs ?? 0;
      const [fromTime, fromLine, fromNow] = await Promise.all([
        follow(container, { sinceMs }),
        follow(container, { tail: 1 }),
        follow(container, { tail: 0 }),
      ]);
      const all = [first, fromTime, fromLine, fromNow];
      await container.subject.until('the last line', async () =>
        all.every(({ lines }) => lines.at(-1)?.text === 'line 4'),
      );
      expect(textsOf(fromTime.lines)[0]).toBe('line 1');
      for (const { lines } of all) {
        const texts = textsOf(ofSlow(lines));
        expect(texts).toEqual(textsOf(ofSlow(first.lines)).slice(-texts.length));
      }
    });

    it('the signal ends a follower without a fault, and so does a break', async () => {
      const container = await started();
      await container.subject.until(
        'the first lines are written',
        async () => (await read(container.subject, container.id)).length >= said.length,
      );
      const { lines, over, leave } = await follow(container);
      await container.subject.until('its lines', async () => lines.length === said.length);
      leave();
      await over;
      for await (const { text } of await container.subject.fixture.engine.followLogs(
        container.id,
        'console',
        {},
        deadline(),
      )) {
        expect(text).toBe(said[0]);
        break;
      }
    });

    it('truncate long lines, replace invalid UTF-8, and include the unterminated last line', async (context) => {
      const subject = current();
      skipWithout('shell', subject, context);
      const script =
        "head -c 5000000 /dev/zero | tr '\\0' x; echo end; echo short; printf 'bad \\377\\376 bytes\\n'; " +
        "head -c 16382 /dev/zero | tr '\\0' x; printf '⚓⚓\\n'; echo 'to stderr' >&2; printf 'last words'; exit 0";
      const { id } = await started({}, startWith('', script));
      await subject.until('it has ended', async () => {
        const seen = await subject.observe(id);
        return seen.kind === 'present' && !seen.running;
      });
      const lines = await read(subject, id);
      const followed = await follow({ subject, id });
      await followed.over;
      expect(followed.lines.map(({ atMs, text, cut }) => ({ atMs, text, cut }))).toEqual(lines);
      // The engine decides the order of lines from two streams.
      const [long, short, bad, split, ...rest] = lines.filter(({ text }) => text !== 'to stderr');
      expect(long).toMatchObject({ text: 'x'.repeat(16 * 1024), cut: true });
      expect(short).toMatchObject({ text: 'short', cut: false });
      expect(bad).toMatchObject({ text: 'bad \uFFFD\uFFFD bytes', cut: false });
      expect(split?.cut).toBe(true);
      expect(split?.text.startsWith('x'.repeat(16_382))).toBe(true);
      expect(textsOf(rest).at(-1)).toBe('last words');
      expect(textsOf(lines)).toContain('to stderr');
    });

    it('are separate for the init script, and followed until its end', async () => {
      const file = '/var/log/berth/init.log';
      const writes = `mkdir -p /var/log/berth; echo zero >${file}; for n in 1 2 3; do sleep 0.5; echo "init $n" >>${file}; done`;
      const script = `${writes}; echo 0 >/var/log/berth/init.exit; trap 'exit 0' TERM`;
      const played =
        '# berth-sim: init says after 0ms zero\n# berth-sim: exit 0 after 2s\n' +
        [1, 2, 3].map((n) => `# berth-sim: init says after ${n * 500}ms init ${n}\n`).join('');
      const container = await started({ files: [control('init-script', 'true\n', 0o755)] }, startWith(played, script));
      const { subject, id } = container;
      const { lines, over } = await follow(container, {}, 'init');
      await subject.until('the first line', async () => lines.length > 0);
      expect(lines.length).toBeLessThan(4);
      await over;
      expect(textsOf(lines)).toEqual(['zero', 'init 1', 'init 2', 'init 3']);
      expect(lines.every(({ atMs }) => atMs === null)).toBe(true);
      expect(textsOf(await read(subject, id, { tail: 2 }, 'init'))).toEqual(['init 2', 'init 3']);
      expect(textsOf(await read(subject, id, { sinceMs: subject.fixture.time.now() + 60_000 }, 'init'))).toHaveLength(
        4,
      );
      await subject.fixture.engine.halt(id, 10_000, deadline());
      await expectFault(read(subject, id, {}, 'init'), 'not_found');
    });

    it('contain complete lines only while the init script runs', async (context) => {
      const subject = current();
      skipWithout('shell', subject, context);
      const log = '/var/log/berth';
      const script =
        `mkdir -p ${log}; printf 'one\\nhal' >${log}/init.log; while [ ! -e ${log}/go ]; do sleep 0.1; done; ` +
        `printf f >>${log}/init.log; echo 0 >${log}/init.exit; trap 'exit 0' TERM`;
      const container = await started({ files: [control('init-script', 'true\n', 0o755)] }, startWith('', script));
      const { lines, over } = await follow(container, {}, 'init');
      await subject.until(
        'the first line is readable',
        async () => (await read(subject, container.id, {}, 'init')).length > 0,
      );
      expect(textsOf(await read(subject, container.id, {}, 'init'))).toEqual(['one']);
      expect(textsOf(lines).includes('hal')).toBe(false);
      await subject.exec(container.id, 'touch', `${log}/go`);
      await over;
      expect(textsOf(lines)).toEqual(['one', 'half']);
      expect(textsOf(await read(subject, container.id, {}, 'init'))).toEqual(['one', 'half']);
    });

    it('are bounded when the init log is replaced, with an endless line truncated', async (context) => {
      const subject = current();
      skipWithout('shell', subject, context);
      const container = await started({ files: [control('init-script', 'true\n', 0o755)] });
      await subject.exec(container.id, 'sh', '-c', 'mkdir -p /var/log/berth; ln -sf /dev/zero /var/log/berth/init.log');
      const { lines, over } = await follow(container, {}, 'init');
      await over;
      await subject.exec(container.id, 'sh', '-c', 'echo 0 >/var/log/berth/init.exit');
      const once = await read(subject, container.id, {}, 'init');
      const last = await read(subject, container.id, { tail: 1 }, 'init');
      for (const reported of [lines, once, last])
        expect(reported).toMatchObject([{ atMs: null, text: '\0'.repeat(16 * 1024), cut: true }]);
    });

    it('are empty without an init script', async () => {
      const container = await started();
      const { lines, over } = await follow(container, {}, 'init');
      await over;
      expect(lines).toEqual([]);
      expect(await read(container.subject, container.id, {}, 'init')).toEqual([]);
    });

    it('the signal ends a follower of the init script, and leaves no process inside', async (context) => {
      const subject = current();
      skipWithout('shell', subject, context);
      const container = await started({ files: [control('init-script', 'true\n', 0o755)] });
      const { over, leave } = await follow(container, {}, 'init');
      const tails = async () => (await subject.exec(container.id, 'ps')).stdout.includes('tail -n');
      await subject.until('the follower process runs', tails);
      leave();
      await over;
      expect(await subject.until('the follower process is gone', async () => !(await tails()))).toBe(true);
    });

    it('are not_found for an absent instance', async () => {
      const { engine } = current().fixture;
      for (const source of ['console', 'init'] as const) {
        await expectFault(engine.logs(newInstanceId(), source, {}, deadline()), 'not_found');
        await expectFault(engine.followLogs(newInstanceId(), source, {}, deadline()), 'not_found');
      }
    });
  });
}
