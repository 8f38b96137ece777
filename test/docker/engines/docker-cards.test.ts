/** Cards on a real daemon without any: plain devices, and a program that prints readings. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { userId } from '../../../src/domain/kernel/ids.ts';
import type { Engine, EngineSpec } from '../../../src/engines/contract.ts';
import { containerName, labels } from '../../../src/engines/labels.ts';
import { makeDockerClient } from '../../../src/docker/docker-client.ts';
import { makeGpuAllocator } from '../../../src/engines/docker/container/gpus.ts';
import { hostGpu } from '../../fixtures/host-gpu.ts';
import { cardOf, makeFakeSmi } from '../../fixtures/nvidia-smi.ts';
import { deadline, newInstanceId, until, type Subject } from '../../conformance/subject.ts';
import { endpoint, onDocker, pauseContainer, type DockerFixture } from './docker-fixture.ts';
import { withSocket } from './sockets.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

const run = promisify(execFile);
const uuids = [cardOf(0), cardOf(1)].map((card) => card['uuid'] ?? '');

/**
 * The daemon, with the older runtime of cards, and with devices of CDI; has commands that are run
 * in instances, and requests of devices, which the daemon does not see. Starts wait until `creates`
 * containers were created.
 */
function withRuntime({ creates = 0, discovered = [] as string[], more = {} } = {}) {
  const asked: unknown[] = [];
  const DiscoveredDevices = discovered.map((ID) => ({ Source: 'cdi', ID }));
  function withoutCards(body: string): string {
    const { HostConfig, ...rest } = JSON.parse(body);
    asked.push(HostConfig.DeviceRequests);
    return JSON.stringify({ ...rest, HostConfig: { ...HostConfig, DeviceRequests: [] } });
  }
  const socketPath = 'socketPath' in endpoint ? endpoint.socketPath : expect.fail('this test needs a local socket');
  const commands: string[] = [];
  let created = 0;
  const waiting: (() => void)[] = [];
  const onCreated = (): void => {
    if (++created >= creates) for (const go of waiting.splice(0)) go();
  };
  const server = http.createServer((request, response) => {
    const { url = '', method, headers } = request;
    if (url.includes('/exec')) commands.push(url);
    const onward = http.request({ socketPath, path: url, method, headers }, (answer) => {
      const pass = async (): Promise<void> => {
        const isInfo = url.split('?')[0]?.endsWith('/info');
        if (url.includes('/containers/create')) onCreated();
        if (!isInfo) {
          response.writeHead(answer.statusCode ?? 500, answer.headers);
          return void answer.pipe(response);
        }
        const info = JSON.parse(await text(answer));
        const Runtimes = { ...info.Runtimes, nvidia: { path: 'nvidia' } };
        response.end(JSON.stringify({ ...info, Runtimes, DiscoveredDevices, ...more }));
      };
      void pass();
    });
    if (url.endsWith('/start') && created < creates) return void waiting.push(() => request.pipe(onward));
    if (!url.includes('/containers/create')) return void request.pipe(onward);
    onward.removeHeader('content-length');
    void text(request).then((body) => onward.end(withoutCards(body)));
  });
  return { server, commands, asked };
}

/** Starts an instance of the label that has one plain device. */
async function startWithCard(spec: EngineSpec, id: string, node = '/dev/null'): Promise<void> {
  await fixture.leaveHalfMade(spec);
  const name = containerName(spec.id);
  const { Config, HostConfig } = await fixture.inspect(spec.id);
  await fixture.docker.getContainer(name).remove({ force: true });
  const Devices = [{ PathOnHost: node, PathInContainer: '/dev/nvidia0', CgroupPermissions: 'rw' }];
  await fixture.docker.createContainer({
    ...Config,
    name,
    Labels: { ...Config.Labels, [labels.gpus]: id },
    Entrypoint: ['/bin/sh', '-c', 'while :; do sleep 1; done'],
    HostConfig: { ...HostConfig, Devices },
  });
  await fixture.docker.getContainer(name).start();
}

it('reads cards of instances by their UUIDs, with one process and no command inside', async () => {
  const smi = await makeFakeSmi();
  onTestFinished(() => smi.remove());
  await smi.show([cardOf(0, { 'utilization.gpu': '93' }), cardOf(1, { 'utilization.gpu': '4' })]);
  const [one, other] = [subject.spec(), subject.spec()];
  await startWithCard(one, uuids[1] ?? '');
  await startWithCard(other, uuids[0] ?? '');
  const { server, commands } = withRuntime();
  await withSocket(fixture, server, async (socketPath) => {
    const engine = fixture.make({ endpoint: { socketPath }, cards: { smi: smi.program } });
    const { devices } = await engine.probe(deadline());
    expect(devices.map(({ id }) => id)).toEqual(uuids);
    const options = { countersOnly: true };
    const busy = async () => {
      const usages = await engine.usage([one.id, other.id], deadline(), options);
      return [one, other].map(({ id }) =>
        usages.get(id)?.gpus?.map(({ deviceId, busyPercent }) => [deviceId, busyPercent]),
      );
    };
    await until('all cards are read', async () => (await busy()).every((gpus) => gpus?.[0]?.[1] !== null));
    expect(await busy()).toEqual([[[uuids[1], 4]], [[uuids[0], 93]]]);
    await engine.stop();
  });
  expect(commands).toEqual([]);
  expect(await smi.loops()).toHaveLength(1);
});

/** A host with one card, as `nvidia-smi`, `/proc` and `/dev` show it. */
async function placesOfOneCard() {
  const smi = await makeFakeSmi();
  const root = await mkdtemp(path.join(tmpdir(), 'cards-'));
  onTestFinished(async () => {
    await smi.remove();
    await rm(root, { recursive: true });
  });
  await smi.show([cardOf(0)]);
  const places = { smi: smi.program, proc: path.join(root, 'proc'), dev: path.join(root, 'dev') };
  await mkdir(path.join(places.proc, '0000:00:00.0'), { recursive: true });
  await mkdir(places.dev);
  const information = `Model: NVIDIA H200\nGPU UUID: ${uuids[0]}\nDevice Minor: 0\n`;
  await writeFile(path.join(places.proc, '0000:00:00.0', 'information'), information);
  for (const [name, minor] of [
    ['nvidia0', 0],
    ['nvidiactl', 255],
  ])
    await run('mknod', [path.join(places.dev, String(name)), 'c', '195', String(minor)]);
  return places;
}

it('makes the nodes of a card devices of the container, where the older runtime gives cards', async () => {
  const places = await placesOfOneCard();
  const { server } = withRuntime();
  await withSocket(fixture, server, async (socketPath) => {
    const engine = fixture.make({ endpoint: { socketPath }, cards: places });
    await engine.probe(deadline());
    const spec = subject.spec({ gpus: 1, gpuName: 'NVIDIA H200' });
    await engine.ensure(spec, deadline());
    const { HostConfig, Config } = await fixture.inspect(spec.id);
    expect(Config.Labels[labels.gpus]).toBe(uuids[0]);
    const nodes = ['nvidiactl', 'nvidia0'].map((name) => path.join(places.dev, name));
    expect(HostConfig.Devices?.map(({ PathOnHost }: { PathOnHost: string }) => PathOnHost)).toEqual(nodes);
    // Past the proxy, which passes no upgraded connection.
    const { stdout } = await subject.exec(spec.id, 'ls', places.dev);
    expect(stdout.trim().split('\n')).toEqual(['nvidia0', 'nvidiactl']);
    await engine.stop();
  });
});

it('gives AMD cards that the engine lists, one to an instance', async () => {
  const smi = await makeFakeSmi();
  onTestFinished(() => smi.remove());
  await smi.show([cardOf(0)]);
  const amd = ['amd.com/gpu=0', 'amd.com/gpu=1'];
  const { server, asked } = withRuntime({ discovered: [...amd, 'amd.com/gpu=all'] });
  await withSocket(fixture, server, async (socketPath) => {
    const engine = fixture.make({ endpoint: { socketPath }, cards: { smi: smi.program } });
    const { devices, capacity } = await engine.probe(deadline());
    expect(devices.map(({ id, name }) => [id, name])).toEqual([
      [uuids[0], 'NVIDIA H200'],
      ['amd.com/gpu=0', 'AMD'],
      ['amd.com/gpu=1', 'AMD'],
    ]);
    expect(capacity.gpus).toEqual({ 'NVIDIA H200': 1, AMD: 2 });
    const both = [subject.spec({ gpus: 1, gpuName: 'AMD' }), subject.spec({ gpus: 1, gpuName: 'AMD' })];
    for (const spec of both) await engine.ensure(spec, deadline());
    expect(asked).toEqual(amd.map((id) => [{ Driver: 'cdi', DeviceIDs: [id] }]));
    const usages = await engine.usage([both[0]?.id ?? expect.fail('no instance')], deadline());
    expect([...usages.values()].map(({ gpus }) => gpus)).toEqual([null]);
    await engine.stop();
  });
});

it('offers no card of an engine that ignores requests of devices, as Podman', async () => {
  const smi = await makeFakeSmi();
  onTestFinished(() => smi.remove());
  await smi.show([cardOf(0)]);
  const devicesOf = async (more: object): Promise<unknown> => {
    let found: unknown;
    await withSocket(fixture, withRuntime({ more }).server, async (socketPath) => {
      const engine = fixture.make({ endpoint: { socketPath }, cards: { smi: smi.program } });
      found = (await engine.probe(deadline())).devices.map(({ name }) => name);
      await engine.stop();
    });
    return found;
  };
  expect(await devicesOf({})).toEqual(['NVIDIA H200']);
  expect(await devicesOf({ BuildahVersion: '1.28.2' })).toEqual([]);
});

/** A host with two cards, and a stopped instance of the second. */
async function withStopped(
  options: { creates?: number },
  work: (engine: Engine, stopped: EngineSpec) => Promise<void>,
): Promise<void> {
  const smi = await makeFakeSmi();
  onTestFinished(() => smi.remove());
  await smi.show([cardOf(0), cardOf(1)]);
  const stopped = subject.spec({ gpus: 1 });
  await startWithCard(stopped, uuids[1] ?? '');
  await fixture.engine.halt(stopped.id, 0, deadline());
  const { server } = withRuntime(options);
  await withSocket(fixture, server, async (socketPath) => {
    const engine = fixture.make({ endpoint: { socketPath }, cards: { smi: smi.program } });
    await engine.probe(deadline());
    await work(engine, stopped);
    await engine.stop();
  });
}
const cardsOf = async ({ id }: EngineSpec): Promise<string | undefined> =>
  (await fixture.inspect(id)).Config.Labels[labels.gpus];

it('gives instances that start at once a card each', async () => {
  await withStopped({ creates: 2 }, async (engine) => {
    const both = [subject.spec({ gpus: 1 }), subject.spec({ gpus: 1 })];
    await Promise.all(both.map((spec) => engine.ensure(spec, deadline())));
    expect((await Promise.all(both.map(cardsOf))).toSorted()).toEqual(uuids);
  });
});

it('gives the card of a stopped instance to its start or to a launch, and never to both', async () => {
  await withStopped({}, async (engine, stopped) => {
    const all = [stopped, subject.spec({ gpus: 1 }), subject.spec({ gpus: 1 })];
    const results = await Promise.allSettled(all.map((spec) => engine.ensure(spec, deadline())));
    const given = await Promise.all(all.filter((_, nth) => results[nth]?.status === 'fulfilled').map(cardsOf));
    expect(given.toSorted()).toEqual(uuids);
    const refused = results.find((result) => result.status === 'rejected');
    expect(refused?.reason).toMatchObject({ kind: 'no_capacity', retry: true, reason: 'gpuBusy' });
  });
});

it('gives the card of a paused instance to no other', async () => {
  await withStopped({}, async (engine) => {
    const [saved, other] = [subject.spec({ gpus: 1 }), subject.spec({ gpus: 1 })];
    await engine.ensure(saved, deadline());
    expect(await cardsOf(saved)).toBe(uuids[0]);
    const container = fixture.docker.getContainer(containerName(saved.id));
    await pauseContainer(container);
    await engine.ensure(other, deadline());
    expect(await cardsOf(other)).toBe(uuids[1]);
    await container.unpause();
  });
});

it('says that the host has taken a card, whatever is in the instance', async ({ skip }) => {
  const cgroup = await readFile('/proc/self/cgroup', 'utf8');
  skip(!/:devices:/.test(cgroup), 'the host has no control groups of the first version');
  const places = await placesOfOneCard();
  const spec = subject.spec();
  await startWithCard(spec, uuids[0] ?? '', path.join(places.dev, 'nvidia0'));
  const { server } = withRuntime();
  await withSocket(fixture, server, async (socketPath) => {
    const engine = fixture.make({ endpoint: { socketPath }, cards: places });
    await engine.probe(deadline());
    const isTaken = async () => {
      const usage = await engine.usage([spec.id], deadline(), { countersOnly: true });
      return usage.get(spec.id)?.gpus?.map((gpu) => gpu.isTaken === true);
    };
    expect(await isTaken()).toEqual([false]);
    await subject.exec(spec.id, 'mv', '/dev/nvidia0', '/dev/hidden');
    expect(await isTaken()).toEqual([false]);
    const { Id, State } = await fixture.inspect(spec.id);
    const [, group = ''] = /:devices:(.*)$/m.exec(await readFile(`/proc/${State.Pid}/cgroup`, 'utf8')) ?? [];
    expect(group).toContain(Id);
    // What systemd does at a reload, of rules that it did not make.
    await writeFile(`/sys/fs/cgroup/devices${group}/devices.deny`, 'c 195:0 rwm');
    expect(await isTaken()).toEqual([true]);
    await fixture.docker.getContainer(Id).restart();
    await until('the run has the card again', async () => (await isTaken())?.[0] === false);
    await engine.stop();
  });
});

it('gives a start no card in quarantine, and lets a stopped instance of one wait', async () => {
  const client = makeDockerClient(endpoint);
  onTestFinished(() => client.stop());
  const facts = { ...fixture.facts, gpuDriver: 'cdi' as const, gpus: uuids.map((id) => hostGpu({ id })) };
  const allocator = makeGpuAllocator(client, fixture.installation);
  const chosenWithout = (...ids: string[]) =>
    allocator.withChosen(
      { id: newInstanceId(), ownerId: userId('ann'), gpus: 1, withoutGpus: new Set(ids) },
      facts,
      deadline(),
      async (chosen) => chosen,
    );
  expect(await chosenWithout(uuids[0] ?? '')).toEqual([uuids[1]]);
  await expect(chosenWithout(...uuids)).rejects.toMatchObject({ kind: 'no_capacity', retry: true, reason: 'gpuBusy' });
  const spec = subject.spec();
  await startWithCard(spec, uuids[0] ?? '');
  const info = await fixture.inspect(spec.id);
  const sick = allocator.checkFree(info, facts, deadline(), new Set([uuids[0] ?? '']));
  await expect(sick).rejects.toMatchObject({ kind: 'no_capacity', retry: true, message: /in quarantine/ });
  await allocator.checkFree(info, facts, deadline(), new Set([uuids[1] ?? '']));
});
