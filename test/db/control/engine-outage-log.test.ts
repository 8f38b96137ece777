import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { makeDockerEngine } from '../../../src/engines/docker/docker.ts';
import { onEngine } from '../../fixtures/store.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';

interface Line {
  level: string;
  text: string;
  facts: Record<string, unknown>;
}

const lineOf = (json: string): Line => {
  const { level, msg, ...facts }: Record<string, unknown> = JSON.parse(json);
  return { level: level === pino.levels.values['debug'] ? 'debug' : String(level), text: String(msg), facts };
};

const MINUTE_S = 60;
/** The date goes on by itself while seconds pass by hand. */
const CLOCK_SET = 'the system clock was set; the time that it skipped or repeated is not charged';

/** A log that collects, and a clock whose seconds pass by hand. */
function recorder() {
  const lines: Line[] = [];
  const write = (level: string) => (facts: Record<string, unknown>, text: string) =>
    void lines.push({ level, text, facts });
  const timers: { ms: number; fn: () => void }[] = [];
  let elapsedS = 0;
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      elapsedS += 1;
      for (const { ms, fn } of timers) if ((elapsedS * 1_000) % Math.max(ms, 1_000) === 0) fn();
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  };
  return {
    lines,
    shown: (): string[] =>
      lines.filter(({ level, text }) => level !== 'debug' && text !== CLOCK_SET).map(({ text }) => text),
    stacks: (): Line[] => lines.filter(({ facts }) => 'stack' in facts || facts['err'] instanceof Error),
    log: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
    time: {
      elapsed: () => elapsedS * 1_000,
      every(ms: number, fn: () => void) {
        timers.push({ ms, fn });
        return () => {};
      },
    },
    pass,
  };
}

const AWAY = 'the engine does not answer; Berth waits for the engine';

onEngine('sqlite', 'the log while the engine is away', (open) => {
  test('has one line for a dead socket in a minute, then one at growing intervals, and one stack', async () => {
    const { lines, shown, stacks, log, time, pass } = recorder();
    const world = await makeWorld(await open(), { log, time, start: false });
    const stateFolder = await mkdtemp(join(tmpdir(), 'berth-outage-'));
    const docker = makeDockerEngine({
      endpoint: { socketPath: join(stateFolder, 'dead.sock') },
      installation: 'outage',
      stateFolder,
      isolation: { kernelLimits: 'check', hostMemoryMiB: 1_024, diskRates: [] },
      log: pino({ level: 'debug', base: null }, { write: (line: string) => lines.push(lineOf(line)) }),
    });
    onTestFinished(async () => {
      await docker.stop();
      await rm(stateFolder, { recursive: true });
    });
    world.drivers.engine = docker;
    await world.running.start();
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const reason = /the container engine does not answer \(connect ENOENT .*dead\.sock\)/;
    await eventually(() => lines.filter(({ text }) => /events ended/.test(text)).length > 2);
    await eventually(() => lines.filter(({ facts }) => facts['id'] === instanceId).length > 2);
    await pass(MINUTE_S - 1);
    expect(shown()).toEqual([AWAY]);
    expect(lines.find(({ text }) => text === AWAY)?.facts['reason']).toMatch(reason);
    expect(stacks()).toEqual([{ level: 'debug', text: 'the probe of the engine failed', facts: expect.anything() }]);
    // One line after a minute, after two more, and after four more.
    await pass(6 * MINUTE_S - 20);
    expect(shown()).toEqual([AWAY, AWAY, AWAY]);
    await pass(MINUTE_S);
    expect(shown()).toEqual([AWAY, AWAY, AWAY, AWAY]);
  });

  test('has one line for each change', async () => {
    const { shown, log, time, pass } = recorder();
    const world = await makeWorld(await open(), { log, time });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    const back = 'the engine answers';
    const expected: string[] = [];
    /** A probe that the change met may take longer than the seconds that pass. */
    const showsNext = async (text: string): Promise<void> => {
      expected.push(text);
      await eventually(async () => (await pass(1), shown().length >= expected.length));
      await pass(10);
      expect(shown()).toEqual(expected);
    };
    await showsNext(back);
    for (const _ of [1, 2]) {
      world.engine.host.goAway(3_600_000);
      await showsNext(AWAY);
      world.engine.host.comeBack();
      await showsNext(back);
    }
  });

  test('has a line without a stack for a call without an answer while the engine answers', async () => {
    const { lines, stacks, log } = recorder();
    const world = await makeWorld(await open(), { log });
    await eventually(() => world.drivers.health.answers);
    world.engine.misbehave(({ verb }) => (verb === 'ensure' ? { mode: 'failBefore' } : undefined));
    await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await eventually(() => lines.some(({ level, text }) => level === 'warn' && text === 'a step failed at the engine'));
    expect(stacks()).toEqual([]);
  });
});
