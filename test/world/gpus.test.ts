/**
 * Cards on real engines: nodes and variables that arrive in an instance, whatever its image and its
 * owner say. By CDI on a current Docker, by the runtime `nvidia` on the system's, where it is the
 * default of every container.
 */
import { once } from 'node:events';
import net from 'node:net';
import { env } from 'node:process';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { endpointOf, type Endpoint } from '../../src/docker/docker-client.ts';
import type { InstanceId } from '../../src/domain/kernel/ids.ts';
import { containerName } from '../../src/engines/labels.ts';
import { control, deadline, makeSubject, type SpecOptions, type Subject } from '../conformance/subject.ts';
import { makeDockerFixture, type DockerFixture } from '../docker/engines/docker-fixture.ts';
import { startOwnEngine } from '../docker/e2e/test-engine.ts';
import { bringsProgram } from '../fixtures/programs.ts';
import { type cards, cdiSpec, devices, h200, l4, makeNvidiaFolder, migs, nodesOf, secondH200 } from './cards.ts';

interface Started {
  endpoint: Endpoint;
  stop(): Promise<void>;
}

async function startCdi(nvidia: string): Promise<Started> {
  const spec = path.join(env['BERTH_TEST_CDI'] ?? expect.fail('BERTH_TEST_CDI is not set'), 'nvidia.json');
  await writeFile(spec, cdiSpec(nvidia));
  return { endpoint: endpointOf(env['DOCKER_HOST'] ?? ''), stop: () => rm(spec) };
}

async function startRuntime(nvidia: string): Promise<Started> {
  const engine = await startOwnEngine({ nvidia });
  return { endpoint: { socketPath: engine.socketPath }, stop: () => engine.stop() };
}

/** An address of an engine on another host. */
async function proxyTo(endpoint: Endpoint | undefined): Promise<{ port: number; close(): Promise<void> }> {
  const socketPath = endpoint && 'socketPath' in endpoint ? endpoint.socketPath : expect.fail('no socket');
  const server = net.createServer({ allowHalfOpen: true }, (near) => {
    const far = net.connect({ path: socketPath, allowHalfOpen: true });
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const)
      from.pipe(to).on('error', () => from.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return { port: address.port, close: async () => void (await once(server.close(), 'close')) };
}

/** Variables by which images ask for cards, for more of a driver and for nodes beside cards. */
const greedy = [
  'CUDA_VERSION=12.0',
  'NVIDIA_VISIBLE_DEVICES=all',
  'NVIDIA_DRIVER_CAPABILITIES=all',
  'NVIDIA_GPU_MEMORY_REQUEST=1',
  'NVIDIA_GPU_MEMORY_LIMIT=999999',
  'NVIDIA_MOFED=enabled',
  'NVIDIA_IMEX_CHANNELS=0',
];
const otherParts = 'NVIDIA_DRIVER_CAPABILITIES=compute,utility,video,graphics,compat32,ngx';

describe.each([
  { name: 'by CDI', start: startCdi, visible: () => 'void' },
  { name: 'by the runtime nvidia', start: startRuntime, visible: (uuids: string[]) => uuids.join(',') || 'void' },
])('cards given $name', ({ start, visible }) => {
  let nvidia: Awaited<ReturnType<typeof makeNvidiaFolder>> | undefined;
  let engine: Started | undefined;
  let fixture: DockerFixture;
  let subject: Subject;
  let greedyRef = '';

  beforeAll(async () => {
    nvidia = await makeNvidiaFolder();
    bringsProgram('nvidia-smi');
    vi.stubEnv('PATH', `${nvidia.folder}:${env['PATH'] ?? ''}`);
    engine = await start(nvidia.folder);
    fixture = await makeDockerFixture(engine.endpoint);
    subject = makeSubject(fixture);
    const { docker, imageRef } = fixture;
    greedyRef = imageRef.replace('busybox', 'greedy');
    const [repo, tag] = greedyRef.split(':');
    const base = await docker.createContainer({ Image: imageRef, Cmd: ['true'] });
    await base.commit({ repo, tag, changes: greedy.map((line) => `ENV ${line}`).join('\n') });
    await base.remove();
  });
  afterEach(() => subject?.clear());
  afterAll(async () => {
    vi.unstubAllEnvs();
    await fixture?.docker.getImage(greedyRef).remove({ force: true });
    await fixture?.stop();
    await engine?.stop();
    await nvidia?.remove();
  });

  async function lookInside(id: InstanceId): Promise<{ nodes: string[]; variables: string[] }> {
    const script = `cd /dev; for node in nvidia* nvidia-caps/*; do [ -c $node ] && stat -c '/dev/%n %t:%T' $node; done
      tr '\\0' '\\n' </proc/1/environ | grep ^NVIDIA_ | sort -u`;
    const { stdout } = await subject.exec(id, 'sh', '-c', script);
    const lines = stdout.split('\n').filter((line) => line !== '');
    return {
      nodes: lines.filter((line) => line.startsWith('/dev/')),
      variables: lines.filter((line) => line.startsWith('NVIDIA_')),
    };
  }
  async function launch(options: SpecOptions): Promise<InstanceId> {
    const spec = subject.spec(options);
    await subject.ensure(spec);
    return spec.id;
  }
  const found = (of: typeof cards, parts = 'NVIDIA_DRIVER_CAPABILITIES=compute,utility') => ({
    nodes: nodesOf(of).map(({ node, major, minor }) => `${node} ${major}:${minor.toString(16)}`),
    variables: [parts, `NVIDIA_VISIBLE_DEVICES=${visible(of.map(({ uuid }) => uuid))}`],
  });

  test('have their models and memory in the probe', async () => {
    expect((await fixture.engine.probe(deadline())).devices).toMatchObject(devices);
  });

  test.each([
    { name: 'has no nvidia-smi', isHere: true },
    { name: 'is elsewhere', isHere: false },
  ])('are read by a container of the engine where Berth $name, and given by these readings', async ({ isHere }) => {
    const proxy = await proxyTo(engine?.endpoint);
    const { imageRef } = fixture;
    const cards = { smi: '/nonexistent/nvidia-smi', image: imageRef };
    const there = { endpoint: { host: '127.0.0.1', port: proxy.port, protocol: 'http' }, stateFolder: null } as const;
    const made = fixture.make({ cards, ...(isHere ? {} : { ...there, helperImage: imageRef }) });
    const temperatures = async () =>
      (await made.probe(deadline())).devices.map(({ figures }) => figures?.temperatureCelsius);
    expect((await made.probe(deadline())).devices).toMatchObject(devices);
    await expect.poll(temperatures).toEqual(devices.map(() => 33));
    const inside = makeSubject({ ...fixture, engine: made });
    const spec = inside.spec({ gpus: 1, gpuName: l4.model });
    await inside.ensure(spec);
    expect(await lookInside(spec.id)).toEqual(found([l4]));
    await inside.clear();
    const [helper, ...others] = await fixture.docker.listContainers({ filters: { name: ['berth-cards-'] } });
    expect(others).toEqual([]);
    const container = fixture.docker.getContainer(helper?.Id ?? '');
    const reads = async () => JSON.stringify((await container.top()).Processes).includes('--loop');
    expect(await reads()).toBe(true);
    await made.stop();
    await expect.poll(reads).toBe(false);
    await container.remove({ force: true });
    await proxy.close();
  });

  test('arrive in parts that the host has made, each once, without the card of others', async () => {
    const [first, second] = migs as [(typeof migs)[number], (typeof migs)[number]];
    const one = await launch({ gpus: 1, gpuName: first.model });
    const other = await launch({ gpus: 1, gpuName: first.model });
    expect([await lookInside(one), await lookInside(other)]).toEqual([found([first]), found([second])]);
    await expect(launch({ gpus: 1, gpuName: first.model })).rejects.toMatchObject({ reason: 'gpuBusy' });
  });

  test('arrive in turns, to instances of one account', async () => {
    const turns = { ofCards: { [l4.uuid]: 2 }, among: 'account' } as const;
    const engine = fixture.make({ sizes: { cpusets: true, lxcfs: null, turns } });
    const inTurns = makeSubject({ ...fixture, engine });
    const gpuName = `${l4.model} 1/2`;
    const { devices: listed } = await engine.probe(deadline());
    expect(listed.filter(({ name }) => name.startsWith(l4.model))).toMatchObject(
      ['0', '1'].map((turn) => ({
        kind: 'gpu',
        id: `${l4.uuid}~${turn}`,
        name: gpuName,
        memoryMiB: l4.memoryMiB,
        share: 0.5,
        slice: 'shared',
        card: l4.model,
        uuid: l4.uuid,
      })),
    );
    const spec = inTurns.spec({ gpus: 1, gpuName });
    await inTurns.ensure(spec);
    const foreign = inTurns.spec({ gpus: 1, gpuName });
    await expect(inTurns.ensure(foreign)).rejects.toMatchObject({ reason: 'gpuBusy' });
    const own = inTurns.spec({ gpus: 1, gpuName, ownerId: spec.ownerId });
    await inTurns.ensure(own);
    for (const { id } of [spec, own]) expect(await lookInside(id)).toEqual(found([l4]));
    await inTurns.clear();
  });

  test('arrive alone by their model, once, and again after a stop', async () => {
    const spec = subject.spec({ gpus: 1, gpuName: l4.model });
    await subject.ensure(spec);
    expect(await lookInside(spec.id)).toEqual(found([l4]));
    await expect(launch({ gpus: 1, gpuName: l4.model })).rejects.toMatchObject({ reason: 'gpuBusy' });
    expect(await lookInside(await launch({ gpus: 1, gpuName: h200.model }))).toEqual(found([h200]));
    await fixture.engine.halt(spec.id, 1_000, deadline());
    await subject.ensure(spec);
    expect(await lookInside(spec.id)).toEqual(found([l4]));
  });

  test('arrive all of a model in a launch of all, and none of another', async () => {
    const both = await launch({ gpus: 2, gpuName: h200.model });
    expect(await lookInside(both)).toEqual(found([h200, secondH200]));
    await expect(launch({ gpus: 3, gpuName: h200.model })).rejects.toMatchObject({ reason: 'gpuMissing' });
  });

  test('do not arrive by the variables of an image, nor more of them than were paid', async () => {
    expect(await lookInside(await launch({ imageRef: greedyRef }))).toEqual(found([], otherParts));
    const one = await launch({ imageRef: greedyRef, gpus: 1, gpuName: h200.model });
    expect(await lookInside(one)).toEqual(found([h200], otherParts));
  });

  test('do not arrive by the start script or the commands of a tenant', async () => {
    const script = `#!/bin/sh
export NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=all
mknod ${h200.node} c ${h200.major} ${h200.minor} || touch /tmp/refused
while :; do sleep 1; done
`;
    const spec = subject.spec({ gpus: 1, gpuName: l4.model });
    const files = spec.files.map((file) => (file.name === 'start' ? control('start', script, 0o755) : file));
    await subject.ensure({ ...spec, files });
    await subject.until('the node is refused', async () => {
      return (await subject.exec(spec.id, 'ls', '/tmp/refused')).exitCode === 0;
    });
    expect(await lookInside(spec.id)).toEqual(found([l4]));
    const { HostConfig } = await fixture.docker.getContainer(containerName(spec.id)).inspect();
    expect(HostConfig.DeviceRequests).toHaveLength(1);
  });
});
