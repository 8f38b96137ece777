/** What each part of the suite works with: the fixture, specs with sensible defaults, and a list of what to clear away after each test. */
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { expect, type TestContext } from 'vitest';
import { EngineFault, type FaultKind } from '../../src/domain/engine-fault.ts';
import { instanceIdOf, userId, type InstanceId, type UserId } from '../../src/domain/ids.ts';
import type { ControlFile, EngineSpec, ExecResult, Observation, OwnedObject } from '../../src/engines/contract.ts';
import { machineTime, type Fixture, type FixtureTime, type Need } from './fixture.ts';

/** The port on which the `serve` start file echoes. */
export const echoPort = 7000;

/** The port of 127.0.0.1 on which `serve` answers HTTP. */
export const loopbackPort = 7001;

/**
 * Start files. Each is a real script for a real engine, and carries, in a comment, what the simulation is to play instead.
 * They say on stdout what `images/start.sh` says.
 */
const said = `echo 'berth: services ssh notebook'\necho 'berth: init none'`;
const forever = 'while :; do sleep 3600 & wait $!; done';
export const startFiles = {
  /** Echoes on `echoPort`, answers HTTP on `loopbackPort`, and ends with 0 on SIGTERM. */
  serve: `#!/bin/sh\n# berth-sim: listen ${echoPort} echo\n# berth-sim: listen ${loopbackPort} http on loopback\n${said}\ntrap 'exit 0' TERM\nhttpd -p 127.0.0.1:${loopbackPort} -h /tmp\nnc -ll -p ${echoPort} -e cat &\n${forever}\n`,
  /** Doesn't hear SIGTERM. */
  stubborn: `#!/bin/sh\n# berth-sim: ignore TERM\n${said}\ntrap '' TERM\nwhile :; do sleep 1; done\n`,
  /** Ends at once with 3. */
  failing: `#!/bin/sh\n# berth-sim: crash after 0ms exit 3\n${said}\nexit 3\n`,
  /** Eats memory until it is killed. */
  greedy: `#!/bin/sh\n# berth-sim: crash after 0ms out of memory\n${said}\nexec tail /dev/zero\n`,
} as const;

export type Start = keyof typeof startFiles;

export interface SpecOptions extends Partial<Omit<EngineSpec, 'files'>> {
  start?: Start;
  /** Beside `start`. */
  files?: ControlFile[];
}

export interface Subject {
  fixture: Fixture;
  /** A spec of a new instance of a new account, unless the wish says whose or which; cleared away after the test. */
  spec(options?: SpecOptions): EngineSpec;
  /** `ensure` with a deadline of its own. */
  ensure(spec: EngineSpec): Promise<Observation>;
  /** One observation. */
  observe(id: InstanceId): Promise<Observation>;
  exec(id: InstanceId, ...command: string[]): Promise<ExecResult>;
  /** What the engine owns of these accounts, instances before networks. */
  owned(...owners: UserId[]): Promise<OwnedObject[]>;
  /** Dials and keeps trying while nothing listens yet. */
  dial(id: InstanceId, port: number): Promise<Duplex>;
  /** Polls, at most every 20 ms of the fixture's time, until there is an answer other than undefined or false. */
  until<T>(what: string | (() => string), ask: () => Promise<T | undefined | false>): Promise<T>;
  /** Done after the test, last asked first. */
  after(undo: () => Promise<unknown>): void;
  clear(): Promise<void>;
}

export const newInstanceId = (): InstanceId => instanceIdOf(randomUUID());
export const newUserId = (): UserId => userId(randomUUID());

/** A deadline no conforming call comes near. */
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

/** Skips the test, by name and with the engine's reason, where the engine lacks what it needs. */
export function skipWithout(need: Need, { fixture }: Subject, context: TestContext): void {
  const reason = fixture.lacks[need];
  if (reason !== undefined) context.skip(`${need}: ${reason}`);
}

/** Asks again until there is an answer other than undefined or false. */
export async function until<T>(
  what: string | (() => string),
  ask: () => Promise<T | undefined | false>,
  time: Pick<FixtureTime, 'sleep'> = machineTime,
): Promise<T> {
  const giveUpAt = performance.now() + 120_000;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (performance.now() > giveUpAt)
      throw new Error(`waited 120 s in vain: ${typeof what === 'string' ? what : what()}`);
    await time.sleep(20);
  }
}

/** The fault that a call ends with; anything else, success included, fails the test. */
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
  expect(fault.message, 'a fault says what was wrong').not.toBe('');
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

export async function untilStopped(subject: Subject, id: InstanceId): Promise<Present> {
  return subject.until(`${id} has stopped`, async () => {
    const seen = await subject.observe(id);
    return seen.kind === 'present' && !seen.running && seen;
  });
}
