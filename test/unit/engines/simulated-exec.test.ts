/**
 * Open commands and followed logs of the simulation beyond the conformance: virtual clock, outages,
 * its shell.
 */
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { LogLine } from '../../../src/engines/contract.ts';
import { makeVirtualClock, type VirtualClock } from '../../fixtures/virtual-clock.ts';
import { parse } from '../../../src/engines/simulated/shell.ts';
import { makeSimulatedEngine, type SimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { expectFault } from '../../conformance/subject.ts';
import { noSignal, specOf } from './simulated-spec.ts';

async function started(
  overrides: Parameters<typeof specOf>[1] = {},
): Promise<{ engine: SimulatedEngine; clock: VirtualClock; id: ReturnType<typeof specOf>['id'] }> {
  const clock = makeVirtualClock();
  const engine = makeSimulatedEngine({ installation: 'test', clock });
  onTestFinished(() => engine.stop());
  const spec = specOf('one', overrides);
  await clock.run(engine.ensureImage(spec.imageRef, () => {}, noSignal()));
  await clock.run(engine.ensure(spec, noSignal()));
  return { engine, clock, id: spec.id };
}

const open = ({ engine, id }: Awaited<ReturnType<typeof started>>, ...command: string[]) =>
  engine.openExec(id, { command, env: {}, terminal: null }, noSignal());

describe('open commands', () => {
  it('sleep by the virtual clock', async () => {
    const fixture = await started();
    const running = await open(fixture, 'sh', '-c', 'sleep 3600; exit 9');
    let exitCode: number | undefined;
    void running.exited.then((code) => (exitCode = code));
    await fixture.clock.advance(3_599_000);
    expect(exitCode).toBeUndefined();
    await fixture.clock.advance(1_000);
    expect(exitCode).toBe(9);
  });

  it('end with an outage, with their instance, and with the engine object', async () => {
    const fixture = await started();
    const { engine, id } = fixture;
    const [first, second, third] = [await open(fixture, 'cat'), await open(fixture, 'cat'), await open(fixture, 'cat')];
    await third.kill();
    expect(await third.exited).toBe(137);
    engine.host.goAway(10);
    for (const running of [first, second]) {
      await expectFault(running.exited, 'unreachable');
      expect(await text(running.stdout)).toBe('');
    }
    await fixture.clock.advance(10);
    const fourth = await open(fixture, 'cat');
    await engine.host.crash(id);
    await expectFault(fourth.exited, 'not_found');
    await fixture.clock.run(engine.ensure(specOf('one'), noSignal()));
    const fifth = await open(fixture, 'cat');
    await engine.stop();
    await expectFault(fifth.exited, 'unreachable');
  });

  it('leave nothing after their end', async () => {
    const fixture = await started();
    for (let round = 0; round < 100; round++) {
      const running = await open(fixture, 'sh', '-c', 'echo; exit 1');
      running.stdout.resume();
      expect(await running.exited).toBe(1);
    }
    expect(fixture.clock.sleepers()).toBe(0);
  });
});

describe('the shell', () => {
  it.each([
    ['echo one  two', [['echo', 'one', 'two']]],
    [`echo 'one  two' "three four"five\\ six`, [['echo', 'one  two', 'three fourfive six']]],
    ['true; false\n\n;exit 3', [['true'], ['false'], ['exit', '3']]],
    [`echo $NAME "\${NAME}" '$NAME' \\$NAME $NONE.`, [['echo', 'Ada', 'Ada', '$NAME', '$NAME', '.']]],
    ['', []],
  ])('%s', (line, words) => {
    expect([...parse(line, { NAME: 'Ada' })].map((simple) => simple.words)).toEqual(words);
  });

  it('supports the last exit code and redirections', async () => {
    const fixture = await started();
    const running = await open(fixture, 'sh');
    running.stdin.end('false\necho it was $? >&2\nsh -c "exit 4"\n');
    expect(await text(running.stderr)).toBe('it was 1\n');
    expect(await running.exited).toBe(4);
  });
});

describe('followed logs', () => {
  it('arrive line by line with the clock, and break at an outage', async () => {
    const start = '# berth-sim: say after 1h one\n# berth-sim: say after 2h two\n# berth-sim: say after 3h three\n';
    const { engine, clock, id } = await started({ start });
    const lines: LogLine[] = [];
    const log = await engine.followLogs(id, 'console', { tail: 0 }, noSignal());
    const over = (async () => {
      for await (const line of log) lines.push(line);
    })();
    over.catch(() => {});
    await clock.advance(3_600_000);
    expect(lines.map(({ text: said }) => said)).toEqual(['one']);
    await clock.advance(3_600_000);
    expect(lines.map(({ text: said }) => said)).toEqual(['one', 'two']);
    engine.host.goAway(1);
    await expectFault(over, 'unreachable');
  });
});
