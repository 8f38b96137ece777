/**
 * sftp-server and rsync for images without them, from the default image, which is built when
 * absent.
 */
import { mkdir, readdir, readFile, readlink, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { BUILD_DEADLINE_MS, ensureDefaultImage } from '../../fixtures/default-images.ts';
import type { Engine, EngineSpec } from '../../../src/engines/contract.ts';
import { labels } from '../../../src/engines/labels.ts';
import { control, deadline, echoPort, expectRunning, until, type Subject } from '../../conformance/subject.ts';
import { importBusybox, onDocker, type DockerFixture } from './docker-fixture.ts';

const START = path.join(import.meta.dirname, '../../../images/start.sh');

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

let notebook: string;
beforeAll(async () => {
  notebook = await ensureDefaultImage(fixture.docker, 'notebook');
}, BUILD_DEADLINE_MS);

interface Prepared {
  engine: Engine;
  folder: string;
}

const withTools = async (imageRef: string, folder?: string): Promise<Prepared> => {
  const toolsFolder = folder ?? path.join(await fixture.hostFolder(), 'tools');
  return { engine: fixture.make({ tools: { folder: toolsFolder, imageRef } }), folder: toolsFolder };
};

const isReady = ({ folder }: Prepared): Promise<void> =>
  until('the tools are present', () =>
    readdir(path.join(folder, 'bin')).then(
      (names) => names.length > 0,
      () => false,
    ),
  ).then(() => {});

async function prepared(imageRef = notebook): Promise<Prepared> {
  const made = await withTools(imageRef);
  await made.engine.ensureImage(imageRef, () => {}, deadline());
  await isReady(made);
  return made;
}

/** Sends SFTP's first two messages; returns its version and first folder. */
async function sftp(engine: Engine, { id }: EngineSpec): Promise<{ version: number; folder: string | undefined }> {
  const command = ['/opt/berth/bin/sftp-server'];
  const running = await engine.openExec(id, { command, env: {}, terminal: null }, deadline());
  const said: Buffer[] = [];
  running.stdout.on('data', (chunk: Buffer) => said.push(chunk));
  running.stderr.on('data', (chunk: Buffer) => said.push(chunk));
  running.stdin.write(Buffer.from('0000000501000000030000000a1000000001000000012e', 'hex'));
  await until(
    () => `it answers: ${Buffer.concat(said).toString('latin1')}`,
    async () => Buffer.concat(said).includes('/root'),
  );
  running.stdin.end();
  expect(await running.exited).toBe(0);
  const answer = Buffer.concat(said);
  return { version: answer.readUInt32BE(5), folder: /\/\w+/.exec(answer.toString('latin1'))?.[0] };
}
const spoken = { version: 3, folder: '/root' };

const toolContainers = (): Promise<unknown[]> =>
  fixture.docker.listContainers({
    all: true,
    filters: { label: [`${labels.kind}=tools`, `${labels.installation}=${fixture.installation}`] },
  });

describe('sftp-server and rsync', () => {
  it('work in an image with only sh, and are read-only', async () => {
    const { engine } = await prepared();
    const imageRef = `berth.local/test-bare:${fixture.installation}`;
    const files = { 'etc/passwd': { content: 'root:x:0:0::/root:/bin/sh\n', mode: 0o644 } };
    await importBusybox(fixture.docker, imageRef, await fixture.hostFolder(), files, ['sh']);
    subject.after(() => fixture.dropImage(imageRef));
    const start = 'while :; do /bin/busybox sleep 3600; done';
    const spec = { ...subject.spec({ imageRef }), files: [control('start', start, 0o755), control('more', 'text')] };
    await engine.ensure(spec, deadline());
    const inside = (...command: string[]) => engine.exec(spec.id, command, deadline());
    expect((await inside('ls')).exitCode, 'there is nothing').toBe(127);
    expect(await sftp(engine, spec)).toEqual(spoken);
    const copied = await inside('/opt/berth/bin/rsync', '-a', '--checksum', '/etc/berth/', '/tmp/copy');
    expect(copied).toEqual({ exitCode: 0, stdout: '', stderr: '' });
    expect((await inside('/bin/busybox', 'cat', '/tmp/copy/more')).stdout).toBe('text');
    const refused = await inside('/bin/busybox', 'touch', '/opt/berth/bin/rsync');
    expect(refused.stderr).toMatch(/read-only/i);
  });

  it('leave root its rights where the command of another user gains none', async () => {
    const { engine } = await prepared();
    const imageRef = `berth.local/test-user:${fixture.installation}`;
    const files = {
      'etc/passwd': { content: 'root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\n', mode: 0o644 },
    };
    await importBusybox(fixture.docker, imageRef, await fixture.hostFolder(), files, undefined, ['USER ann']);
    subject.after(() => fixture.dropImage(imageRef));
    const words = ['sh', '-c', 'umask 077; echo $COLOR >/dev/shm/own; exec sleep 3600'];
    const spec = {
      ...subject.spec({ imageRef, imageCommand: { words, hasShell: true } }),
      files: [control('env', 'export COLOR=blue\n', 0o644)],
    };
    await engine.ensure(spec, deadline());
    const inside = (command: string) => engine.exec(spec.id, ['sh', '-c', command], deadline());
    await until('the command runs', async () => (await inside('[ -s /dev/shm/own ]')).exitCode === 0);
    expect((await inside('cat /dev/shm/own && chown 0:0 /dev/shm/own && id -u')).stdout).toBe('blue\n0\n');
    const ofProcess1 = 'grep -E "^(Uid|NoNewPrivs)" /proc/1/status; tr "\\0" " " </proc/1/cmdline';
    expect((await inside(ofProcess1)).stdout).toBe('Uid:\t1000\t1000\t1000\t1000\nNoNewPrivs:\t1\nsleep 3600 ');
  });

  it('work in a Debian image without them', async () => {
    const { engine } = await prepared();
    const imageRef = fixture.engine.dockerImageRef ?? expect.fail('the fixture has one');
    await fixture.engine.ensureImage(imageRef, () => {}, AbortSignal.timeout(600_000));
    const spec = { ...subject.spec({ imageRef }), files: [control('start', 'exec sleep 3600', 0o755)] };
    await engine.ensure(spec, deadline());
    const shell = async (script: string) => engine.exec(spec.id, ['sh', '-c', script], deadline());
    expect((await shell('ls /usr/bin/rsync /usr/lib/openssh')).exitCode, 'it has neither').not.toBe(0);
    expect(await sftp(engine, spec)).toEqual(spoken);
    expect(await shell('PATH=$PATH:/opt/berth/bin; rsync -a /etc/ /tmp/copy')).toMatchObject({
      exitCode: 0,
      stderr: '',
    });
    const sums = async (folder: string) => (await shell(`cd ${folder}; find . -type f -exec cksum {} + | sort`)).stdout;
    expect(await sums('/tmp/copy')).toBe(await sums('/etc'));
  });

  it('work with the start script in an image without users', async () => {
    const { engine } = await prepared();
    const spec = subject.spec();
    const env = `export BERTH_INSTANCE_ID=${spec.id}\nexport BERTH_BASE_URL=/\n`;
    const files = [
      control('start', await readFile(START, 'utf8'), 0o755),
      control('env', env),
      control('authorized_keys', ''),
    ];
    await engine.ensure({ ...spec, files }, deadline());
    const said = async () => Array.fromAsync(await engine.logs(spec.id, 'console', {}, deadline()));
    await until('the transfer has begun', async () => (await said()).length > 1);
    expect(await sftp(engine, spec)).toEqual(spoken);
  });

  it('appear in running instances, newer versions too', async () => {
    const made = await withTools(notebook);
    const spec = subject.spec();
    await made.engine.ensure(spec, deadline());
    await subject.exec(spec.id, 'sh', '-c', 'echo root:x:0:0::/root:/bin/sh >/etc/passwd');
    await isReady(made);
    expect(await sftp(made.engine, spec)).toEqual(spoken);
    const [first] = await readdir(path.join(made.folder, 'versions'));
    // The same image under another ref.
    const versions = ['next', 'last'].map((tag) => ({
      repo: 'berth.local/test-tools',
      tag: `${tag}-${fixture.installation}`,
    }));
    for (const { repo, tag } of versions) {
      await fixture.docker.getImage(notebook).tag({ repo, tag });
      subject.after(() => fixture.dropImage(`${repo}:${tag}`));
      const before = await readlink(path.join(made.folder, 'bin'));
      const next = await withTools(`${repo}:${tag}`, made.folder);
      await next.engine.ensure(spec, deadline());
      await until('the new version is linked', async () => (await readlink(path.join(made.folder, 'bin'))) !== before);
      expect(await sftp(next.engine, spec)).toEqual(spoken);
      await next.engine.stop();
    }
    const left = await readdir(path.join(made.folder, 'versions'));
    expect(left.length, 'the last and the one before it').toBe(2);
    expect(left).not.toContain(first);
  });

  it('are copied as soon as their image is present', async () => {
    const imageRef = `berth.local/test-later:${fixture.installation}`;
    const made = await withTools(imageRef);
    await made.engine.ensure(subject.spec(), deadline());
    await made.engine.ensure(subject.spec(), deadline());
    await fixture.docker.getImage(notebook).tag({ repo: 'berth.local/test-later', tag: fixture.installation });
    subject.after(() => fixture.dropImage(imageRef));
    await made.engine.ensureImage(imageRef, () => {}, deadline());
    await isReady(made);
    expect((await stat(path.join(made.folder, 'bin/rsync'))).isFile()).toBe(true);
  });

  it('are copied once for concurrent callers, and again after an incomplete copy', async () => {
    const folder = path.join(await fixture.hostFolder(), 'tools');
    await mkdir(`${folder}.of-an-earlier-life/made/bin`, { recursive: true });
    await writeFile(`${folder}.of-an-earlier-life/made/bin/rsync`, 'half');
    const made = await withTools(notebook, folder);
    const spec = subject.spec();
    await Promise.all([made.engine.ensureImage(notebook, () => {}, deadline()), made.engine.ensure(spec, deadline())]);
    await isReady(made);
    await made.engine.stop();
    expect(await readdir(path.dirname(folder))).toEqual(['tools']);
    expect(await toolContainers()).toEqual([]);
    const first = await stat(path.join(folder, 'bin/rsync'));
    const again = await withTools(notebook, folder);
    await again.engine.ensureImage(notebook, () => {}, deadline());
    await again.engine.stop();
    const found = await stat(path.join(folder, 'bin/rsync'));
    expect([found.ino, found.mtimeMs]).toEqual([first.ino, first.mtimeMs]);
  });

  it('are optional: a failed copy blocks no launch', async () => {
    const { engine, folder } = await withTools(fixture.imageRef);
    const spec = subject.spec();
    expectRunning(await engine.ensure(spec, deadline()));
    await until('the failure is logged', async () => fixture.warnings.some((line) => line.includes('sftp-server')));
    expect((await engine.exec(spec.id, ['/opt/berth/bin/sftp-server'], deadline())).exitCode).toBe(127);
    await engine.stop();
    expect(await readdir(path.dirname(folder))).toEqual(['tools']);
    expect(await toolContainers()).toEqual([]);
    fixture.warnings.length = 0;
  });

  it('are optional: a folder that can not be created blocks no launch', async () => {
    const toolsFolder = path.join(await fixture.hostFolder(), 'file');
    await writeFile(toolsFolder, '');
    const { engine } = await withTools(notebook, path.join(toolsFolder, 'tools'));
    const spec = subject.spec();
    expectRunning(await engine.ensure(spec, deadline()));
    await engine.stop();
    fixture.warnings.length = 0;
  });

  it('are absent in an instance created without them, which keeps running', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    await subject.fixture.engine.halt(spec.id, 5_000, deadline());
    const { engine } = await prepared();
    expectRunning(await engine.ensure(spec, deadline()));
    (await subject.dial(spec.id, echoPort)).destroy();
    expect((await engine.exec(spec.id, ['/opt/berth/bin/sftp-server'], deadline())).exitCode).toBe(127);
  });
});
