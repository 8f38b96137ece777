/** User namespaces and container runtimes, on a daemon of the test's own. */
import { execFile } from 'node:child_process';
import { chown, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { control, deadline, expectFault, expectRunning, makeSubject, type Subject } from '../../conformance/subject.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { endpoint, makeDockerFixture, type DockerFixture } from './docker-fixture.ts';
import { endpointOf, makeDockerClient } from '../../../src/docker/docker-client.ts';
import { startOwnEngine, type OwnEngine } from '../e2e/test-engine.ts';

const run = promisify(execFile);

const ids = { user: 'games', first: 2_000_000_000, count: 65_536 };

let daemon: OwnEngine;
let fixture: DockerFixture;
let subject: Subject;

beforeAll(async () => {
  daemon = await startOwnEngine({ ids, runtimes: ['other'] });
  fixture = await makeDockerFixture(endpointOf(daemon.dockerHost));
  subject = makeSubject(fixture);
});
afterAll(async () => {
  await fixture?.stop();
  await daemon?.stop();
});

/** The owner of a file as the host sees it, on the disk and not through the mount. */
const ownerOf = async (file: string): Promise<[number, number]> => {
  const { uid, gid } = await stat(file);
  return [uid, gid];
};

describe('an engine with user namespaces', () => {
  /** Its file system maps no ids. */
  const dataSet = { source: '/sys/class', target: '/root/commonData', readOnly: true };
  let source: string;
  let spec: EngineSpec;
  beforeAll(async () => {
    source = await fixture.hostFolder();
    await writeFile(path.join(source, 'secret'), 'of root', { mode: 0o600 });
    await mkdir(path.join(source, 'of-ada'), { mode: 0o700 });
    await chown(path.join(source, 'of-ada'), 1000, 1000);
    spec = subject.spec({
      mounts: [{ source, target: '/root/dataDisk', readOnly: false }, dataSet],
      files: [control('notebook-token', 'sesame', 0o600)],
    });
    expectRunning(await subject.ensure(spec));
  });
  afterAll(() => subject?.clear());

  test('gives instances root that is no root of the host, and says so', async () => {
    const { capabilities } = await fixture.engine.probe(deadline());
    expect(capabilities.isolation.userNamespaces).toBe('shared');
    const { State } = await fixture.inspect(spec.id);
    const status = await readFile(`/proc/${State.Pid}/status`, 'utf8');
    expect(/^Uid:\s+(\d+)/m.exec(status)?.[1]).toBe(String(ids.first));
    expect((await subject.exec(spec.id, 'id', '-u')).stdout).toBe('0\n');
    expect((await subject.exec(spec.id, 'grep', ' /dev/pts ', '/proc/mounts')).stdout).toMatch(/max=512 /);
  });

  test('keeps the owners of an existing disk, which root inside reads, writes and gives away', async () => {
    const script =
      'cd /root/dataDisk && cat secret && stat -c %u:%g secret of-ada && echo new >made && echo ada >of-ada/made && chown 1000:1000 of-ada/made';
    const { exitCode, stdout, stderr } = await subject.exec(spec.id, 'sh', '-c', script);
    expect([exitCode, stdout], stderr).toEqual([0, 'of root0:0\n1000:1000\n']);
    expect(await ownerOf(path.join(source, 'made'))).toEqual([0, 0]);
    expect(await ownerOf(path.join(source, 'of-ada/made'))).toEqual([1000, 1000]);
    // A file that the host writes later, as uploads do.
    await writeFile(path.join(source, 'uploaded'), 'by the host', { mode: 0o600 });
    expect((await subject.exec(spec.id, 'cat', '/root/dataDisk/uploaded')).stdout).toBe('by the host');
  });

  test('mounts a data set of a file system that maps no ids, and refuses a disk there', async () => {
    expect((await subject.exec(spec.id, 'ls', dataSet.target)).stdout).toContain('net');
    const disk = subject.spec({ mounts: [{ ...dataSet, readOnly: false }] });
    const fault = await expectFault(subject.ensure(disk), 'rejected');
    expect(fault.message).toMatch(/disks on a file system with ID-mapped mounts/);
    expect(String(fault.cause)).toContain('ids of /sys/class cannot be mapped: Invalid argument');
  });

  test('shows control files to root inside alone', async () => {
    expect((await subject.exec(spec.id, 'cat', '/etc/berth/notebook-token')).stdout).toBe('sesame');
    const other = await subject.exec(spec.id, 'su', '-s', '/bin/sh', 'nobody', '-c', 'cat /etc/berth/notebook-token');
    expect(other.exitCode).not.toBe(0);
  });

  test('mounts the disks again at a later start, and leaves no mount on the host', async () => {
    await subject.exec(spec.id, 'sh', '-c', 'echo one >/root/dataDisk/log');
    await fixture.engine.halt(spec.id, 0, deadline());
    await subject.ensure({ ...spec, generation: 2 });
    await subject.exec(spec.id, 'sh', '-c', 'echo two >>/root/dataDisk/log');
    expect(await readFile(path.join(source, 'log'), 'utf8')).toBe('one\ntwo\n');
    expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toContain(fixture.stateFolder);
    expect(await readdir(path.join(fixture.stateFolder, '.mounts'))).toEqual([]);
  });

  test('removes the mounts of a start whose server died', async () => {
    const source = await fixture.hostFolder();
    const program = `
      const { makeIdMappedMounts } = await import(${JSON.stringify(path.resolve('src/engines/docker/container/id-mapped-mounts.ts'))});
      const mounts = makeIdMappedMounts(process.argv[1]);
      await mounts.open({ name: 'one', HostConfig: { Mounts: [{ Type: 'bind', Source: process.argv[2], Target: '/data' }] } }, ${JSON.stringify({ uid: ids.first, gid: ids.first, count: ids.count })});
      process.stdout.write(await (await import('node:fs/promises')).readFile('/proc/self/mountinfo', 'utf8'));
      process.kill(process.pid, 'SIGKILL');`;
    const folder = await fixture.hostFolder();
    const died = run(process.execPath, ['--input-type=module', '-e', program, folder, source]);
    const table = await died.then(
      () => expect.fail('the program should have been killed'),
      ({ stdout }: { stdout: string }) => stdout,
    );
    expect(table).toContain(folder);
    await subject.until('its mount is gone', async () => (await readdir(folder)).length === 0);
    expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toContain(folder);
  });

  longTest('refuses Docker inside while its range of ids is too small for a rootless daemon', async () => {
    const { capabilities } = await fixture.engine.probe(deadline());
    expect(capabilities.whyNoDocker).toMatch(/have 65536 ids, .* needs 1879179264; .* \/etc\/subuid/);
  });
});

describe('a container runtime', () => {
  afterAll(() => subject?.clear());

  test('runs the instances of its type, and is listed by the engine', async () => {
    const { capabilities } = await fixture.engine.probe(deadline());
    expect(capabilities.isolation.runtimes).toEqual(expect.arrayContaining(['other', 'runc']));
    const spec = subject.spec({ runtime: 'other' });
    expectRunning(await subject.ensure(spec));
    expect((await fixture.inspect(spec.id)).HostConfig.Runtime).toBe('other');
  });

  test('ends a start with a remedy where the engine lacks it', async () => {
    const fault = await expectFault(subject.ensure(subject.spec({ runtime: 'runsc' })), 'rejected');
    expect(fault.message).toMatch(/no longer has the container runtime .*; ask the operator to install the runtime/);
    expect(fault.retry).toBe(false);
  });
});

test('an engine of a test that does not start leaves no network, ids or folder', async () => {
  const under = await mkdtemp(path.join(tmpdir(), 'berth-engines-'));
  onTestFinished(() => rm(under, { recursive: true }));
  const unknown = { ...ids, user: 'nobody-of-that-name' };
  await expect(startOwnEngine({ under, ids: unknown })).rejects.toThrow(/dockerd ended with 1/);
  const { docker, stop } = makeDockerClient(endpoint);
  onTestFinished(stop);
  const labels = (await docker.listNetworks()).map(({ Labels }) => Labels?.['berth.test'] ?? '');
  expect(labels.filter((label) => label.includes(under))).toEqual([]);
  expect(await readdir(under)).toEqual([]);
  expect(await readFile('/etc/subuid', 'utf8')).not.toContain(unknown.user);
});
