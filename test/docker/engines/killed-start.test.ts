/**
 * Remains of a start during which the engine was killed: Berth removes them, and the same container
 * starts again.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { endpointOf } from '../../../src/docker/docker-client.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { expectFault, expectRunning, makeSubject, type Subject } from '../../conformance/subject.ts';
import { startOwnEngine, type OwnEngine } from '../e2e/test-engine.ts';
import { makeDockerFixture, type DockerFixture } from './docker-fixture.ts';

let engine: OwnEngine;
let fixture: DockerFixture;
let subject: Subject;
let spec: EngineSpec;
let container: string;
let pid: number;
beforeEach(async () => {
  engine = await startOwnEngine();
  fixture = await makeDockerFixture(endpointOf(engine.dockerHost));
  subject = makeSubject(fixture);
  spec = subject.spec();
  await subject.ensure(spec);
  const { Id, State } = await fixture.inspect(spec.id);
  container = Id;
  pid = State.Pid;
});
afterEach(async () => {
  await subject.clear();
  await fixture.stop();
  await engine.stop();
});

/** Kills the engine as if the engine had not recorded the start. */
async function loseStart(): Promise<void> {
  const { DockerRootDir } = (await engine.docker.info()) as { DockerRootDir: string };
  await engine.kill('SIGKILL');
  const record = join(DockerRootDir, 'containers', container, 'config.v2.json');
  const recorded = JSON.parse(await readFile(record, 'utf8')) as { State: object };
  await writeFile(record, JSON.stringify({ ...recorded, State: { ...recorded.State, Running: false, Pid: 0 } }));
}

async function expectStartsAgain(after: RegExp): Promise<void> {
  expect((await fixture.inspect(spec.id)).State.Running).toBe(false);
  expect((await expectFault(subject.ensure(spec), 'busy')).message).toMatch(after);
  let last: unknown;
  const what = (): string => `it runs (${String(last)})`;
  await subject.until(what, async () =>
    subject.ensure(spec).then(expectRunning, (fault: unknown) => {
      last = fault;
      return false as const;
    }),
  );
  expect((await fixture.inspect(spec.id)).Id).toBe(container);
}

test('ends a stopped process that the engine no longer tracks', async () => {
  await loseStart();
  // A stopped process does not end by the signal of the next start.
  process.kill(pid, 'SIGSTOP');
  await engine.start();
  await expectStartsAgain(/no longer tracks a process of .*; Berth ended the process, and retries/);
});

test('ends a shim whose process never came to be', async () => {
  await loseStart();
  process.kill(pid, 'SIGKILL');
  await engine.replaceShim(container);
  await engine.start();
  await expectStartsAgain(/no longer tracks a process of .*; Berth ended the process, and retries/);
});

test('removes the folder of a run', async () => {
  await engine.docker.getContainer(container).stop({ t: 1 });
  const folder = engine.bundleOf(container);
  await mkdir(join(folder, 'rootfs'), { recursive: true });
  await writeFile(join(folder, 'config.json'), '{}');
  await expectStartsAgain(/left a folder of .*; Berth removed the folder, and retries/);
});

test('removes no folder that holds files, and names it', async () => {
  await engine.docker.getContainer(container).stop({ t: 1 });
  const folder = engine.bundleOf(container);
  await mkdir(join(folder, 'rootfs'), { recursive: true });
  const work = join(folder, 'rootfs/work');
  await writeFile(work, 'kept');
  const { message } = await expectFault(subject.ensure(spec), 'unreachable');
  expect(message).toContain(`ask the operator to remove ${folder}, or to restart the host`);
  expect(await readFile(work, 'utf8')).toBe('kept');
});
