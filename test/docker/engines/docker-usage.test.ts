/** Usage of instances on a real daemon. */
import http from 'node:http';
import { describe, expect, it } from 'vitest';
import { longTest } from '../../fixtures/long-test.ts';
import { containerName, labels } from '../../../src/engines/labels.ts';
import { deadline, until, type Subject } from '../../conformance/subject.ts';
import { endpoint, onDocker, type DockerFixture } from './docker-fixture.ts';
import { withSocket } from './sockets.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

describe('usage', () => {
  it('distinguishes a busy from an idle instance, and reports its root disk', async () => {
    const [busy, idle] = [subject.spec({ cpuMilli: 300 }), subject.spec()];
    await Promise.all([subject.ensure(busy), subject.ensure(idle)]);
    await subject.exec(idle.id, 'dd', 'if=/dev/zero', 'of=/root/file', 'bs=1M', 'count=5');
    await subject.exec(busy.id, 'sh', '-c', 'while :; do :; done >/dev/null 2>&1 &');
    const ids = [busy.id, idle.id];
    await fixture.engine.usage(ids, deadline());
    const usage = await until('the busy instance shows load', async () => {
      const now = await fixture.engine.usage(ids, deadline(), { rootDisk: true });
      return (now.get(busy.id)?.cpuMilli ?? 0) > 150 && now;
    });
    expect(usage.get(idle.id)?.cpuMilli).toBeLessThan(100);
    expect(usage.get(idle.id)?.rootDiskBytes).toBeGreaterThanOrEqual(5 * 1024 * 1024);
    await fixture.engine.halt(idle.id, 5_000, deadline());
    const halted = (await fixture.engine.usage(ids, deadline())).get(idle.id);
    expect(halted).toMatchObject({ startedAtMs: 0, cpuMilli: 0, cpuTimeMs: 0, memoryBytes: 0, receivedBytes: 0 });
  });

  it('counts the processes that the kernel kills for want of memory, until the next run', async () => {
    const spec = subject.spec();
    const kills = async () => (await fixture.engine.usage([spec.id], deadline())).get(spec.id)?.memoryKills;
    await subject.ensure(spec);
    expect(await kills()).toBe(0);
    const { exitCode } = await subject.exec(spec.id, 'dd', 'if=/dev/zero', 'of=/dev/null', 'bs=200M', 'count=1');
    expect(exitCode).toBe(137);
    expect(await kills()).toBe(1);
    await fixture.engine.halt(spec.id, 5_000, deadline());
    await subject.ensure(spec);
    expect(await kills()).toBe(0);
  });

  it('counts blocks of the root disk and of files of the engine, deleted ones included, and no holes', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const countMiB = async (): Promise<number> => {
      const options = { rootDisk: true, countersOnly: true };
      const usage = (await fixture.engine.usage([spec.id], deadline(), options)).get(spec.id);
      return (usage?.rootDiskBytes ?? 0) / 1024 ** 2;
    };
    const sh = (script: string): Promise<unknown> => subject.exec(spec.id, 'sh', '-c', script);
    const zeros = (file: string): string => `dd if=/dev/zero of=${file} bs=1M count=8`;
    let before = await countMiB();
    for (const file of ['/etc/hostname', '/etc/hosts', '/etc/resolv.conf', '/root/plain']) {
      await sh(zeros(file));
      expect((await countMiB()) - before, file).toBeCloseTo(8, 0);
      before = await countMiB();
    }
    await sh(`exec 9>/root/deleted; rm /root/deleted; ${zeros('/proc/self/fd/9')} 2>/dev/null; sleep 1000 &`);
    expect((await countMiB()) - before, 'deleted and open').toBeCloseTo(8, 0);
    await sh('dd if=/dev/zero of=/root/sparse bs=1M count=0 seek=1000');
    expect((await countMiB()) - before, 'a hole').toBeCloseTo(8, 0);
  });

  longTest('is the mean over a second at first, and since the previous reading later', async () => {
    const spec = subject.spec({ cpuMilli: 300 });
    await subject.ensure(spec);
    await subject.exec(spec.id, 'sh', '-c', 'while [ ! -e /root/enough ]; do :; done >/dev/null 2>&1 &');
    const look = async () => (await fixture.engine.usage([spec.id], deadline())).get(spec.id) ?? expect.fail();
    const first = await look();
    expect(first.cpuOverMs).toBeGreaterThanOrEqual(1_000);
    expect(first.cpuOverMs).toBeLessThan(5_000);
    expect(first.cpuMilli).toBeGreaterThan(150);
    await subject.exec(spec.id, 'touch', '/root/enough');
    await until('the instance shows no load', async () => (await look()).cpuMilli < 50);
    const last = await look();
    expect(last.atMs).toBeGreaterThan(first.atMs);
    expect(last.cpuOverMs).toBeLessThan(last.atMs - first.atMs);
  });

  longTest('returns counters alone at once, without a change to the mean of other callers', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const ask = async (countersOnly: boolean) =>
      (await fixture.engine.usage([spec.id], deadline(), { countersOnly })).get(spec.id) ?? expect.fail();
    const first = await ask(false);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const counted = await ask(true);
    expect(counted).toMatchObject({ startedAtMs: first.startedAtMs, cpuOverMs: 0, cpuMilli: 0 });
    expect(counted.cpuTimeMs).toBeGreaterThanOrEqual(first.cpuTimeMs);
    const last = await ask(false);
    expect(last.cpuOverMs).toBe(last.atMs - first.atMs);
  });

  longTest('counts received and sent bytes separately', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const look = async () => (await fixture.engine.usage([spec.id], deadline())).get(spec.id) ?? expect.fail();
    const before = await look();
    await subject.exec(
      spec.id,
      'sh',
      '-c',
      'nc -l -p 7070 >/dev/null 2>&1 & nc -l -p 7071 </dev/zero >/dev/null 2>&1 &',
    );
    const dial = (port: number) =>
      until('it listens', async () => (await subject.dial(spec.id, port).catch(() => undefined)) ?? false);
    const toContainer = await dial(7070);
    toContainer.on('error', () => {}).resume();
    toContainer.write(Buffer.alloc(400_000));
    const received = await until('received bytes are counted', async () => {
      const now = await look();
      return (now.receivedBytes ?? 0) >= (before.receivedBytes ?? 0) + 400_000 && now;
    });
    expect((received.sentBytes ?? 0) - (before.sentBytes ?? 0)).toBeLessThan(100_000);
    toContainer.destroy();
    const fromContainer = await dial(7071);
    fromContainer.on('error', () => {}).resume();
    await until(
      'sent bytes are counted',
      async () => ((await look()).sentBytes ?? 0) >= (received.sentBytes ?? 0) + 400_000,
    );
    fromContainer.destroy();
  });

  longTest('restarts its counters with each run, also of an external start', async () => {
    const spec = subject.spec({ cpuMilli: 500 });
    await subject.ensure(spec);
    await subject.exec(spec.id, 'sh', '-c', 'n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done');
    const look = async () => (await fixture.engine.usage([spec.id], deadline())).get(spec.id) ?? expect.fail();
    const first = await look();
    expect((await look()).startedAtMs).toBe(first.startedAtMs);
    await fixture.stopOutside(spec.id);
    await fixture.docker.getContainer(containerName(spec.id)).start();
    const again = await look();
    expect(again.startedAtMs).toBeGreaterThan(first.atMs);
    expect(again.cpuTimeMs).toBeLessThan(first.cpuTimeMs);
  });

  longTest("asks an instance for its GPUs' usage, and reports unknown rather than 0", async () => {
    const spec = subject.spec();
    await fixture.leaveHalfMade(spec);
    const name = containerName(spec.id);
    const { Config, HostConfig } = await fixture.inspect(spec.id);
    await fixture.docker.getContainer(name).remove({ force: true });
    const Labels = { ...Config.Labels, [labels.gpus]: 'GPU-1,GPU-2' };
    const start = ['/bin/sh', '-c', 'while :; do sleep 1; done'];
    await fixture.docker.createContainer({ ...Config, name, Labels, Entrypoint: start, HostConfig });
    await fixture.docker.getContainer(name).start();
    const gpus = async () => (await fixture.engine.usage([spec.id], deadline())).get(spec.id)?.gpus;
    expect(await gpus()).toBeNull();
    const question = '--query-gpu=utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu';
    const answer = '93, 40000, 81920, 311.52, 67\\n 4, [N/A], 81920, [Not Supported], 31\\n';
    const tool = `#!/bin/sh\n[ "$1" = ${question} ] && printf "${answer}"\n`;
    await subject.exec(spec.id, 'sh', '-c', `printf '%s' '${tool}' >/bin/nvidia-smi; chmod 755 /bin/nvidia-smi`);
    const GiB = 1024 ** 3;
    expect(await gpus()).toEqual([
      {
        deviceId: 'GPU-1',
        busyPercent: 93,
        memoryUsedBytes: 40_000 * 1024 ** 2,
        memoryTotalBytes: 80 * GiB,
        powerMilliwatts: 311_520,
        temperatureCelsius: 67,
      },
      {
        deviceId: 'GPU-2',
        busyPercent: 4,
        memoryUsedBytes: null,
        memoryTotalBytes: 80 * GiB,
        powerMilliwatts: null,
        temperatureCelsius: 31,
      },
    ]);
    for (const nonsense of ['[N/A]', 'NVIDIA-SMI has failed', '193, 1, 1, 1, 1', '3, 1, 1, 1, hot']) {
      await subject.exec(spec.id, 'sh', '-c', `echo "echo '${nonsense}'" >/bin/nvidia-smi`);
      expect(await gpus(), nonsense).toBeNull();
    }
  });

  longTest('omits an unreadable instance, and reports the others', async () => {
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
