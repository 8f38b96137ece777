/** Subject of the suite: fixture, specs with defaults, and clean-up after each test. */
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { expect, type TestContext } from 'vitest';
import { EngineFault, type FaultKind } from '../../src/domain/regions/engine-fault.ts';
import { instanceIdOf, userId, type InstanceId, type UserId } from '../../src/domain/kernel/ids.ts';
import type { ControlFile, EngineSpec, ExecResult, Observation, OwnedObject } from '../../src/engines/contract.ts';
import { machineTime, type Fixture, type FixtureTime, type Need } from './fixture.ts';

/** Echo port of the `serve` start file. */
export const echoPort = 7000;

/** HTTP port of `serve` on 127.0.0.1. */
export const loopbackPort = 7001;

/**
 * Start files: real scripts, with comments that instruct the simulated engine. Output is that of
 * `images/start.sh`.
 */
const said = `echo 'berth: services ssh notebook'\necho 'berth: notebook ready'\necho 'berth: init none'`;
const forever = 'while :; do sleep 3600 & wait $!; done';
export const startFiles = {
  /** Echoes on `echoPort`, answers HTTP on `loopbackPort`, and exits with 0 on SIGTERM. */
  serve: `#!/bin/sh\n# berth-sim: listen ${echoPort} echo\n# berth-sim: listen ${loopbackPort} http on loopback\n${said}\ntrap 'exit 0' TERM\nhttpd -p 127.0.0.1:${loopbackPort} -h /tmp\nnc -ll -p ${echoPort} -e cat &\n${forever}\n`,
  /** Ignores SIGTERM. */
  stubborn: `#!/bin/sh\n# berth-sim: ignore TERM\n${said}\ntrap '' TERM\nwhile :; do sleep 1; done\n`,
  /** Exits at once with 3. */
  failing: `#!/bin/sh\n# berth-sim: crash after 0ms exit 3\n${said}\nexit 3\n`,
  /** Allocates memory until killed. */
  greedy: `#!/bin/sh\n# berth-sim: crash after 0ms out of memory\n${said}\nexec tail /dev/zero\n`,
} as const;

export type Start = keyof typeof startFiles;

export interface SpecOptions extends Partial<Omit<EngineSpec, 'files'>> {
  start?: Start;
  /** Files besides `start`. */
  files?: ControlFile[];
}

export interface Subject {
  fixture: Fixture;
  /** A spec for a new instance of a new account unless given; cleaned up after the test. */
  spec(options?: SpecOptions): EngineSpec;
  /** `ensure` with a deadline of its own. */
  ensure(spec: EngineSpec): Promise<Observation>;
  observe(id: InstanceId): Promise<Observation>;
  exec(id: InstanceId, ...command: string[]): Promise<ExecResult>;
  /** Owned objects of these accounts, instances before networks. */
  owned(...owners: UserId[]): Promise<OwnedObject[]>;
  /** Dials, with retries while nothing listens. */
  dial(id: InstanceId, port: number): Promise<Duplex>;
  /**
   * Polls, at most every 20 ms of the fixture's time, until the result is neither undefined nor
   * false.
   */
  until<T>(what: string | (() => string), ask: () => Promise<T | undefined | false>): Promise<T>;
  /** Runs after the test, in reverse order. */
  after(undo: () => Promise<unknown>): void;
  clear(): Promise<void>;
}

export const newInstanceId = (): InstanceId => instanceIdOf(randomUUID());
export const newUserId = (): UserId => userId(randomUUID());

/** Longer than any conforming call takes. */
export const deadline = (): AbortSignal => AbortSignal.timeout(90_000);

export const control = (name: string, content: string, mode = 0o644): ControlFile => ({ name, content, mode });

export function makeSubject(fixture: Fixture): Subject {
  const { engine } = fixture;
  const undos: (() => Promise<unknown>)[] = [];
  const subject: Subject = {
    fixture,
    spec({ start = 'serve', files = [], ...options } = {}) {
      const id = options.id ?? newInstanceId();
      const spec: EngineSpec = {
        id,
        ownerId: newUserId(),
        generation: 1,
        hostname: `${id}-0`,
        imageRef: fixture.imageRef,
        cpuMilli: 500,
        memoryMiB: 64,
        pidsLimit: 64,
        gpus: 0,
        mounts: [],
        nodePorts: [],
        nodePortAddress: fixture.nodePortAddress,
        ...options,
        files: [control('start', startFiles[start], 0o755), ...files],
      };
      subject.after(() => engine.destroy(spec.id, deadline()));
      return spec;
    },
    ensure: (spec) => engine.ensure(spec, deadline()),
    async observe(id) {
      const seen = await engine.observe([id], deadline());
      return seen.get(id) ?? expect.fail(`observe gave no answer for ${id}`);
    },
    exec: (id, ...command) => engine.exec(id, command, deadline()),
    async owned(...owners) {
      const all = await engine.listOwned(deadline());
      return all
        .filter((one) => owners.some((owner) => owner === one.ownerId))
        .toSorted((one, other) => one.kind.localeCompare(other.kind));
    },
    dial: (id, port) => {
      let last: unknown;
      const what = (): string => `port ${port} of ${id} listens (${String(last)})`;
      return subject.until(what, async () => {
        try {
          return await engine.dial(id, port, deadline());
        } catch (fault) {
          if (!(fault instanceof EngineFault && fault.kind === 'busy')) throw fault;
          last = fault.cause;
          return undefined;
        }
      });
    },
    until: (what, ask) => until(what, ask, fixture.time),
    after: (undo) => {
      undos.push(undo);
    },
    async clear() {
      const troubles: unknown[] = [];
      for (let undo = undos.pop(); undo !== undefined; undo = undos.pop()) {
        await undo().catch((trouble: unknown) => troubles.push(trouble));
      }
      if (troubles.length > 0) throw new AggregateError(troubles, `clearing away failed: ${String(troubles[0])}`);
    },
  };
  return subject;
}

/** Skips the test with the engine's reason if a feature is missing. */
export function skipWithout(need: Need, { fixture }: Subject, context: TestContext): void {
  const reason = fixture.lacks[need];
  if (reason !== undefined) context.skip(`${need}: ${reason}`);
}

/** Polls until the result is neither undefined nor false. */
export async function until<T>(
  what: string | (() => string),
  ask: () => Promise<T | undefined | false>,
  time: Pick<FixtureTime, 'sleep'> = machineTime,
): Promise<T> {
  const giveUpAt = performance.now() + 120_000;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (performance.now() > giveUpAt) throw new Error(`not within 120 s: ${typeof what === 'string' ? what : what()}`);
    await time.sleep(20);
  }
}

/** Fault of the call; any other result, success included, fails the test. */
export async function faultOf(call: Promise<unknown>): Promise<EngineFault> {
  const outcome = await call.then(
    (value) => ({ value }),
    (thrown: unknown) => ({ thrown }),
  );
  if ('value' in outcome) return expect.fail(`should have been refused, answered ${JSON.stringify(outcome.value)}`);
  if (outcome.thrown instanceof EngineFault) return outcome.thrown;
  return expect.fail(`should have thrown an EngineFault, threw ${String(outcome.thrown)}`);
}

export async function expectFault(call: Promise<unknown>, ...kinds: FaultKind[]): Promise<EngineFault> {
  const fault = await faultOf(call);
  expect(kinds, fault.message).toContain(fault.kind);
  expect(fault.message, 'a fault has a message').not.toBe('');
  return fault;
}

export type Present = Extract<Observation, { kind: 'present' }>;

export function expectPresent(seen: Observation): Present {
  if (seen.kind !== 'present') return expect.fail(`should be present, is ${JSON.stringify(seen)}`);
  return seen;
}

export function expectRunning(seen: Observation): Present {
  const present = expectPresent(seen);
  expect(present).toMatchObject({ running: true, exitCode: null });
  return present;
}

/** The file that the test touched is there, or gone from an engine that keeps no root disk. */
export async function expectKept(subject: Subject, id: InstanceId, file = '/root/kept'): Promise<void> {
  const { exitCode } = await subject.exec(id, 'ls', file);
  const { rootDisk } = subject.fixture.lacks;
  expect(exitCode === 0, rootDisk).toBe(rootDisk === undefined);
}

export async function untilStopped(subject: Subject, id: InstanceId): Promise<Present> {
  return subject.until(`${id} has stopped`, async () => {
    const seen = await subject.observe(id);
    return seen.kind === 'present' && !seen.running && seen;
  });
}
