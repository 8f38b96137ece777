/** What instances use, read on a real daemon. */
import http from 'node:http';
import { describe, expect, it } from 'vitest';
import { gpuLabel } from '../../src/engines/docker/create-options.ts';
import { containerName } from '../../src/engines/labels.ts';
import { deadline, echoPort, until, type Subject } from './conformance/subject.ts';
import { endpoint, onDocker, type DockerFixture } from './docker-fixture.ts';
import { withSocket } from './sockets.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

describe('usage', () => {
  it('tells a busy instance from an idle one, and what it wrote', async () => {
    const [busy, idle] = [subject.spec({ cpuMilli: 300 }), subject.spec()];
    await Promise.all([subject.ensure(busy), subject.ensure(idle)]);
    await subject.exec(idle.id, 'dd', 'if=/dev/zero', 'of=/root/file', 'bs=1M', 'count=5');
    await subject.exec(busy.id, 'sh', '-c', 'while :; do :; done >/dev/null 2>&1 &');
    const ids = [busy.id, idle.id];
    await fixture.engine.usage(ids, deadline());
    const usage = await until('the busy one is seen to be', async () => {
      const now = await fixture.engine.usage(ids, deadline(), { rootDisk: true });
      return (now.get(busy.id)?.cpuMilli ?? 0) > 150 && now;
    });
    expect(usage.get(idle.id)?.cpuMilli).toBeLessThan(100);
    expect(usage.get(idle.id)?.rootDiskBytes).toBeGreaterThanOrEqual(5 * 1024 * 1024);
    await fixture.engine.halt(idle.id, 5_000, deadline());
    const halted = (await fixture.engine.usage(ids, deadline())).get(idle.id);
    expect(halted).toMatchObject({ cpuMilli: 0, memoryBytes: 0, networkBytes: 0 });
  });

  it('is of now: over a second at the first look and since the last one later, however long it idled before', async () => {
    const spec = subject.spec({ cpuMilli: 300 });
    await subject.ensure(spec);
    await subject.exec(spec.id, 'sh', '-c', 'while [ ! -e /root/enough ]; do :; done >/dev/null 2>&1 &');
    const look = async () => (await fixture.engine.usage([spec.id], deadline())).get(spec.id) ?? expect.fail();
    const first = await look();
    expect(first.cpuOverMs).toBeGreaterThanOrEqual(1_000);
    expect(first.cpuOverMs).toBeLessThan(5_000);
    expect(first.cpuMilli).toBeGreaterThan(150);
    await subject.exec(spec.id, 'touch', '/root/enough');
    await until('it is seen to have become idle', async () => (await look()).cpuMilli < 50);
    const last = await look();
    expect(last.atMs).toBeGreaterThan(first.atMs);
    expect(last.cpuOverMs).toBeLessThan(last.atMs - first.atMs);
  });

  it('counts the bytes of its network', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const bytes = async (): Promise<number> =>
      (await fixture.engine.usage([spec.id], deadline())).get(spec.id)?.networkBytes ?? expect.fail();
    const before = await bytes();
    const stream = await subject.dial(spec.id, echoPort);
    stream.on('error', () => {}).resume();
    stream.write(Buffer.alloc(200_000));
    await until('they are counted', async () => (await bytes()) >= before + 400_000);
    stream.destroy();
  });

  it("asks an instance with GPUs how busy they are, and says that it can't tell rather than nought", async () => {
    const spec = subject.spec();
    await fixture.leaveHalfMade(spec);
    const name = containerName(spec.id);
    const { Config, HostConfig } = await fixture.inspect(spec.id);
    await fixture.docker.getContainer(name).remove({ force: true });
    const Labels = { ...Config.Labels, [gpuLabel]: 'GPU-1,GPU-2' };
    const start = ['/bin/sh', '-c', 'while :; do sleep 1; done'];
    await fixture.docker.createContainer({ ...Config, name, Labels, Entrypoint: start, HostConfig });
    await fixture.docker.getContainer(name).start();
    const gpus = async () => (await fixture.engine.usage([spec.id], deadline())).get(spec.id)?.gpus;
    expect(await gpus()).toBeNull();
    const tool = '#!/bin/sh\n[ "$1" = --query-gpu=utilization.gpu ] && printf "93\\n 4\\n"\n';
    await subject.exec(spec.id, 'sh', '-c', `printf '%s' '${tool}' >/bin/nvidia-smi; chmod 755 /bin/nvidia-smi`);
    expect(await gpus()).toEqual([{ busyPercent: 93 }, { busyPercent: 4 }]);
    await subject.exec(spec.id, 'sh', '-c', 'echo echo "[N/A]" >/bin/nvidia-smi');
    expect(await gpus()).toBeNull();
  });

  it('one that can not be read is left out, and the others are told all the same', async () => {
    const daemonSocket = 'socketPath' in endpoint ? endpoint.socketPath : expect.fail('this test needs a local socket');
    const [well, ill] = [subject.spec(), subject.spec()];
    await Promise.all([subject.ensure(well), subject.ensure(ill)]);
    const { Id } = await fixture.inspect(ill.id);
    const between = http.createServer((request, response) => {
      if (request.url?.startsWith(`/containers/${Id}/stats`)) return void response.end('{"read":"nonsense"}');
      const { url: path, method, headers } = request;
      const onward = http.request({ socketPath: daemonSocket, path, method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      request.pipe(onward);
    });
    await withSocket(fixture, between, async (socketPath) => {
      const engine = fixture.make({ endpoint: { socketPath } });
      expect([...(await engine.usage([well.id, ill.id], deadline())).keys()]).toEqual([well.id]);
      await engine.stop();
    });
  });
});
