/** Labels of images on a real daemon: images of accounts may have labels with Berth's names. */
import { describe, expect, it } from 'vitest';
import { makeDockerClient } from '../../../src/docker/docker-client.ts';
import { hostGpu } from '../../fixtures/host-gpu.ts';
import { userId } from '../../../src/domain/kernel/ids.ts';
import { makeGpuAllocator } from '../../../src/engines/docker/container/gpus.ts';
import { labels } from '../../../src/engines/labels.ts';
import { deadline, newInstanceId, type Subject } from '../../conformance/subject.ts';
import { endpoint, onDocker, type DockerFixture } from './docker-fixture.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => ({ fixture, subject } = made));

const gpus = ['GPU-0', 'GPU-1'];

/** Image from the fixture's, with these instructions. */
async function imageWith(changes: readonly string[]): Promise<string> {
  const [repo, tag] = ['berth.local/test-labelled', newInstanceId()];
  const container = await fixture.docker.createContainer({ Image: fixture.imageRef, Entrypoint: ['true'] });
  await container.commit({ repo, tag, changes: changes.join('\n') });
  await container.remove({ force: true });
  subject.after(() => fixture.docker.getImage(`${repo}:${tag}`).remove({ force: true }));
  return `${repo}:${tag}`;
}

const labelledImage = (found: Record<string, string>): Promise<string> =>
  imageWith(Object.entries(found).map(([name, value]) => `LABEL ${name}=${value}`));

/** GPUs that the next launch gets on a host with `gpus`. */
async function freeGpus(): Promise<readonly string[]> {
  const client = makeDockerClient(endpoint);
  subject.after(async () => client.stop());
  const facts = { ...fixture.facts, gpus: gpus.map((id) => hostGpu({ id })) };
  const allocator = makeGpuAllocator(client, fixture.installation);
  return allocator.withChosen(
    { id: newInstanceId(), ownerId: userId('ann'), gpus: gpus.length },
    facts,
    deadline(),
    async (ids) => ids,
  );
}

describe('labels of an image', () => {
  it('take no GPU from other launches', async () => {
    const spec = subject.spec({ imageRef: await labelledImage({ [labels.gpus]: gpus.join(',') }) });
    await subject.ensure(spec);
    expect((await fixture.inspect(spec.id)).Config.Labels[labels.gpus]).toBe('');
    expect(await freeGpus()).toEqual(gpus);
  });

  it('take no GPU through a container that others run', async () => {
    const imageRef = await labelledImage({
      [labels.installation]: fixture.installation,
      [labels.kind]: 'instance',
      [labels.id]: newInstanceId(),
      [labels.gpus]: gpus.join(','),
    });
    const container = await fixture.docker.createContainer({ Image: imageRef, Entrypoint: ['sleep', '3600'] });
    subject.after(() => container.remove({ force: true }));
    await container.start();
    expect(await freeGpus()).toEqual(gpus);
  });
});

describe('variables of an image', () => {
  it('ask for no GPUs, of a runtime or hook that Berth does not know either', async () => {
    const asking = ['NVIDIA_VISIBLE_DEVICES=all', 'AMD_VISIBLE_DEVICES=all', 'NVIDIA_MOFED=enabled'];
    const spec = subject.spec({ imageRef: await imageWith(asking.map((line) => `ENV ${line}`)) });
    await subject.ensure(spec);
    const { stdout } = await subject.exec(spec.id, 'sh', '-c', "tr '\\0' '\\n' </proc/1/environ");
    expect(stdout.split('\n').filter((line) => /^(NVIDIA|AMD)_/.test(line))).toEqual(['NVIDIA_VISIBLE_DEVICES=void']);
  });
});
