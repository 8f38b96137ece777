/**
 * Saved images, inspected without the engine: the base image with changes, and nothing of Berth's.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { longTest } from '../../fixtures/long-test.ts';
import { containerName, labels } from '../../../src/engines/labels.ts';
import { createOptions } from '../../../src/engines/docker/container/create-options.ts';
import { control, deadline, expectFault, expectRunning, until, type Subject } from '../../conformance/subject.ts';
import { onDocker, type DockerFixture } from './docker-fixture.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

/** Image with its own settings, from the fixture's. */
async function imageWith(name: string, changes: string[]): Promise<string> {
  const ref = `berth.local/${name}:${createHash('sha256').update(fixture.installation).digest('hex').slice(0, 8)}`;
  const container = await fixture.docker.createContainer({ Image: fixture.imageRef, Entrypoint: ['true'] });
  const [repo = '', tag = ''] = ref.split(':');
  await container.commit({ repo, tag, changes });
  await container.remove({ force: true });
  subject.after(() => fixture.docker.getImage(ref).remove({ force: true }));
  return ref;
}

async function saved(imageRef: string, name: string, specOptions: Parameters<Subject['spec']>[0] = {}) {
  const ref = `berth.local/saved-${name}:${fixture.installation.slice(0, 8)}`;
  subject.after(() => fixture.dropImage(ref));
  const spec = subject.spec({ imageRef, ...specOptions });
  await subject.ensure(spec);
  await subject.exec(spec.id, 'touch', '/root/changed');
  const { sizeBytes } = await fixture.engine.saveImage(spec.id, ref, deadline());
  return { ref, spec, sizeBytes };
}

/** A tar archive with one empty file. */
const tarOf = (name: string): Buffer =>
  execFileSync('sh', ['-c', `cd "$(mktemp -d)" && : >${name} && tar -cf - ${name}`]);

const configOf = async (ref: string) => (await fixture.docker.getImage(ref).inspect()).Config;

describe('a saved image', () => {
  longTest('has the settings of its base image, not of the launch', async () => {
    const base = await imageWith('with-settings', [
      'ENV GREETING=hello',
      'ENTRYPOINT ["/bin/echo", "from the entry point"]',
      'CMD ["and", "the", "command"]',
      'WORKDIR /tmp',
      'LABEL maker=somebody',
      'USER 1000',
      'HEALTHCHECK CMD true',
    ]);
    const { ref } = await saved(base, 'with-settings');
    const [was, is] = [await configOf(base), await configOf(ref)];
    expect(is).toMatchObject({ Entrypoint: was.Entrypoint, Cmd: was.Cmd, WorkingDir: '/tmp', User: '1000' });
    expect(is.Env).toEqual(expect.arrayContaining(was.Env));
    expect(is.Env.filter((pair) => !was.Env.includes(pair))).toEqual(['HOME=/root']);
    expect(is.Labels).toMatchObject({ maker: 'somebody' });
    expect(is.Healthcheck?.Test).toEqual(['CMD-SHELL', 'true']);
  });

  longTest('has one layer when its root disk has a hundred, with files, settings and labels as before', async () => {
    const { docker, engine } = fixture;
    const name = `berth.local/deep-${fixture.installation.slice(0, 8)}`;
    let from = await imageWith('deep-base', ['ENV GREETING=hello', 'WORKDIR /tmp', 'LABEL maker=somebody']);
    for (let layer = 2; layer <= 101; layer++) {
      const container = await docker.createContainer({ Image: from, Entrypoint: ['true'] });
      await container.putArchive(tarOf(`layer-${layer}`), { path: '/' });
      await container.commit({ repo: name, tag: String(layer), pause: false });
      await container.remove({ force: true });
      from = `${name}:${layer}`;
      const made = from;
      subject.after(() => docker.getImage(made).remove({ force: true }));
    }
    const layersOf = async (ref: string) => (await docker.getImage(ref).inspect()).RootFS.Layers?.length;
    expect(await layersOf(from)).toBeGreaterThanOrEqual(100);
    const { ref, spec } = await saved(from, 'deep');
    expect(await layersOf(ref)).toBe(1);
    expect(expectRunning(await subject.observe(spec.id)).running).toBe(true);
    const [was, is] = [await configOf(from), await configOf(ref)];
    expect(is).toMatchObject({ WorkingDir: '/tmp', Env: was.Env });
    expect([is.Cmd ?? [], is.Entrypoint ?? []]).toEqual([was.Cmd ?? [], was.Entrypoint ?? []]);
    expect(is.Labels).toMatchObject({ maker: 'somebody', [labels.kind]: 'image', [labels.id]: spec.id });
    const second = subject.spec({ imageRef: ref });
    await subject.ensure(second);
    expect(await subject.exec(second.id, 'ls', '/root/changed', '/layer-2', '/layer-101')).toMatchObject({
      exitCode: 0,
    });
    expect(await subject.exec(second.id, 'ls', '/etc/berth/start')).toMatchObject({ exitCode: 0 });
    await engine.destroy(second.id, deadline());
    await engine.removeImage(ref, deadline());
    expect((await subject.owned(spec.ownerId)).filter(({ kind }) => kind === 'image')).toEqual([]);
    const all = await docker.listContainers({ all: true });
    expect(all.filter(({ Names }) => Names.some((one) => one.endsWith('-flat')))).toEqual([]);
  });

  longTest('has no settings of its own when its base image has none', async () => {
    const { ref } = await saved(fixture.imageRef, 'without-settings');
    const { Entrypoint, Cmd, WorkingDir } = await configOf(ref);
    expect([Entrypoint ?? [], Cmd ?? []]).toEqual([[], []]);
    expect(WorkingDir).toBe('/');
  });

  longTest('has labels of its kind and owner, and none of GPUs', async () => {
    const spec = subject.spec();
    const options = createOptions(
      { ...spec, gpus: 1 },
      {
        installation: fixture.installation,
        network: 'none',
        controlFolder: '/tmp',
        gpuIds: ['GPU-1'],
        host: fixture.facts,
      },
    );
    const HostConfig = { ...options.HostConfig, DeviceRequests: [], PortBindings: {} };
    await fixture.docker.createContainer({ ...options, HostConfig });
    const ref = `berth.local/saved-gpu:${fixture.installation.slice(0, 8)}`;
    subject.after(() => fixture.dropImage(ref));
    await fixture.engine.saveImage(spec.id, ref, deadline());
    expect((await configOf(ref)).Labels).toEqual({
      [labels.installation]: fixture.installation,
      [labels.kind]: 'image',
      [labels.id]: spec.id,
      [labels.owner]: spec.ownerId,
      [labels.generation]: '0',
      [labels.imageRef]: ref,
      [labels.gpus]: '',
    });
  });

  it('contains no control files or mounts, and an empty /etc/berth', async () => {
    const source = await fixture.hostFolder();
    await writeFile(path.join(source, 'data'), 'a disk of its own');
    const mounts = [{ source, target: '/root/dataDisk', readOnly: false }];
    const { ref } = await saved(fixture.imageRef, 'files', { mounts, files: [control('token', 'secret', 0o600)] });
    const spec = subject.spec({ imageRef: ref });
    await subject.ensure(spec);
    expect((await subject.exec(spec.id, 'ls', '/root/changed')).exitCode).toBe(0);
    expect((await subject.exec(spec.id, 'ls', '-A', '/root/dataDisk')).stdout).toBe('');
    expect((await subject.exec(spec.id, 'ls', '/etc/berth')).stdout).toBe('start\n');
  });

  longTest('reports its size, and shares the layers of its base', async () => {
    const { ref, sizeBytes } = await saved(fixture.imageRef, 'size');
    expect(sizeBytes).toBe((await fixture.docker.getImage(ref).inspect()).Size);
    const layersOf = async (of: string): Promise<string[]> =>
      (await fixture.docker.getImage(of).inspect()).RootFS.Layers ?? [];
    const base = await layersOf(fixture.imageRef);
    expect((await layersOf(ref)).slice(0, base.length)).toEqual(base);
  });

  longTest('is refused for an image with a VOLUME', async () => {
    const base = await imageWith('with-volume', ['VOLUME /var/lib/things']);
    const spec = subject.spec({ imageRef: base });
    await subject.ensure(spec);
    const fault = await expectFault(fixture.engine.saveImage(spec.id, 'berth.local/never:1', deadline()), 'rejected');
    expect(fault.message).toContain('/var/lib/things');
    await fixture.docker.getContainer(containerName(spec.id)).remove({ force: true, v: true });
  });

  longTest('without a name, after a crash between commit and tag, is listed and discarded by its id', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const Labels = { [labels.installation]: fixture.installation, [labels.kind]: 'image', [labels.id]: spec.id };
    const half = await fixture.docker
      .getContainer(containerName(spec.id))
      .commit({ changes: Object.entries(Labels).map(([name, value]) => `LABEL ${name}=${value}`) });
    const find = async () =>
      (await fixture.engine.listOwned(deadline())).find(({ engineName }) => engineName === half.Id);
    const reported = await find();
    expect(reported).toMatchObject({ kind: 'image', id: spec.id });
    await fixture.engine.discard(reported ?? expect.fail(), deadline());
    expect(await find()).toBeUndefined();
  });

  longTest('unpauses the instance when the caller aborts', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    await subject.exec(spec.id, 'dd', 'if=/dev/urandom', 'of=/root/file', 'bs=1M', 'count=60');
    const ref = `berth.local/saved-left:${fixture.installation.slice(0, 8)}`;
    subject.after(() => fixture.dropImage(ref));
    const abort = new AbortController();
    const refused = expectFault(fixture.engine.saveImage(spec.id, ref, abort.signal), 'unreachable');
    const inspect = () => fixture.docker.getContainer(containerName(spec.id)).inspect();
    await until('the container is paused', async () => (await inspect()).State.Paused);
    expectRunning(await subject.observe(spec.id));
    abort.abort();
    await refused;
    await until('the container is unpaused', async () => !(await inspect()).State.Paused);
    await until('the image that the engine committed is listed as owned', async () =>
      (await fixture.engine.listOwned(deadline())).some(({ engineName }) => engineName === ref),
    );
  });
});
