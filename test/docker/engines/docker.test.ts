/**
 * Promises of the Docker engine beyond the contract, on a real daemon, also with a broken
 * connection.
 */
import { randomUUID } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { access, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import type { Engine } from '../../../src/engines/contract.ts';
import { makeControlFiles } from '../../../src/engines/docker/container/control-files.ts';
import { kernelLimits } from '../../../src/engines/docker/host/kernel-limits.ts';
import { containerName, labels, networkName } from '../../../src/engines/labels.ts';
import {
  control,
  deadline,
  echoPort,
  expectFault,
  expectPresent,
  expectRunning,
  newInstanceId,
  newUserId,
  until,
  untilStopped,
  type Subject,
} from '../../conformance/subject.ts';
import { endpoint, isolation, onDocker, pauseContainer, type DockerFixture } from './docker-fixture.ts';
import { inHostNetwork } from './host-network.ts';
import { squat, withSocket } from './sockets.ts';

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

describe('node ports', () => {
  it('are fixed after the first run: a taken port is busy, and the instance starts once it is free', async () => {
    const nodePorts = [{ port: echoPort, nodePort: await fixture.releaseNodePort() }];
    const spec = subject.spec({ nodePorts });
    await subject.ensure(spec);
    await subject.exec(spec.id, 'touch', '/root/kept');
    await fixture.engine.halt(spec.id, 5_000, deadline());
    const leave = await squat(fixture.nodePortAddress, nodePorts[0]?.nodePort ?? 0);
    const fault = await expectFault(subject.ensure(spec), 'busy');
    expect(fault).toMatchObject({ retry: true, takenNodePort: undefined });
    expect(fault.message).toContain(String(nodePorts[0]?.nodePort));
    await leave();
    expectRunning(await subject.ensure(spec));
    expect((await subject.exec(spec.id, 'ls', '/root/kept')).exitCode).toBe(0);
  });

  it("can't be changed after the first run, and the root disk stays", async () => {
    const spec = subject.spec({ nodePorts: [{ port: 22, nodePort: await fixture.releaseNodePort() }] });
    await subject.ensure(spec);
    await subject.exec(spec.id, 'touch', '/root/kept');
    await fixture.engine.halt(spec.id, 5_000, deadline());
    const other = { ...spec, nodePorts: [{ port: 22, nodePort: await fixture.releaseNodePort() }] };
    const fault = await expectFault(subject.ensure(other), 'rejected');
    expect(fault.retry).toBe(false);
    expect(fault.message).toContain(String(spec.nodePorts[0]?.nodePort));
    expectRunning(await subject.ensure(spec));
    expect((await subject.exec(spec.id, 'ls', '/root/kept')).exitCode).toBe(0);
  });
});

describe('networks', () => {
  it('are recreated when lost, for a new instance and for a stopped one', async () => {
    const stopped = subject.spec();
    await subject.ensure(stopped);
    await fixture.engine.halt(stopped.id, 5_000, deadline());
    const network = fixture.docker.getNetwork(networkName(fixture.installation, stopped.ownerId));
    await network.remove();
    expectRunning(await subject.ensure(stopped));
    await fixture.engine.halt(stopped.id, 5_000, deadline());
    await network.remove();
    const fresh = subject.spec({ ownerId: stopped.ownerId });
    expectRunning(await subject.ensure(fresh));
    expectRunning(await subject.ensure(stopped));
    expect((await subject.owned(stopped.ownerId)).map(({ kind }) => kind)).toEqual(['instance', 'instance', 'network']);
  });

  it('are usable when two servers created duplicates of a name, and the duplicate is removed', async () => {
    const spec = subject.spec();
    const name = networkName(fixture.installation, spec.ownerId);
    const Labels = {
      [labels.installation]: fixture.installation,
      [labels.kind]: 'network',
      [labels.id]: spec.ownerId,
      [labels.owner]: spec.ownerId,
    };
    for (let twin = 0; twin < 2; twin++)
      await fixture.docker.createNetwork({ Name: name, CheckDuplicate: false, Labels });
    const named = (await fixture.docker.listNetworks()).filter(({ Name }) => Name === name);
    expectRunning(await subject.ensure(spec));
    expect(await subject.owned(spec.ownerId)).toHaveLength(2);
    await fixture.engine.destroy(spec.id, deadline());
    expect(await subject.owned(spec.ownerId), `there were ${named.length}`).toEqual([]);
  });

  it('skip a used subnet, and report a pool without a free one', async () => {
    const engine = fixture.make({ networkPool: { cidr: '10.213.128.0/27', prefix: 28 } });
    const specs = [subject.spec(), subject.spec(), subject.spec()];
    const answers = await Promise.allSettled(specs.map((spec) => engine.ensure(spec, deadline())));
    expect(answers.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    const refused = specs[answers.findIndex(({ status }) => status === 'rejected')] ?? expect.fail();
    const fault = await expectFault(engine.ensure(refused, deadline()), 'no_capacity');
    expect(fault.message).toContain('larger pool');
  });

  it('skip the subnet of a bridge left by a killed engine', async () => {
    const bridge = `br-${randomUUID().slice(0, 8)}`;
    const make = `ip link add ${bridge} type bridge; ip addr add 10.213.129.1/28 dev ${bridge}; ip link set ${bridge} up`;
    await inHostNetwork(fixture.docker, fixture.imageRef, make);
    subject.after(() => inHostNetwork(fixture.docker, fixture.imageRef, `ip link del ${bridge}`));
    const spec = subject.spec();
    const small = fixture.make({ networkPool: { cidr: '10.213.129.0/28', prefix: 28 } });
    expect((await expectFault(small.ensure(spec, deadline()), 'no_capacity')).message).toContain('larger pool');
    const engine = fixture.make({ networkPool: { cidr: '10.213.129.0/27', prefix: 28 } });
    await engine.ensure(spec, deadline());
    const { IPAM } = await fixture.docker.getNetwork(networkName(fixture.installation, spec.ownerId)).inspect();
    expect(IPAM?.Config).toMatchObject([{ Subnet: '10.213.129.16/28' }]);
    (await subject.dial(spec.id, echoPort)).destroy();
  });
});

describe('external changes of a container', () => {
  it('observes a paused container as not running, and unpauses it', async () => {
    const spec = subject.spec();
    const before = expectPresent(await subject.ensure(spec));
    await pauseContainer(fixture.docker.getContainer(containerName(spec.id)));
    expect(await subject.observe(spec.id)).toMatchObject({ running: false, exitCode: null });
    expect(await subject.ensure(spec)).toEqual(before);
  });

  it('destroys the files and the network of a removed container', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    await fixture.docker.getContainer(containerName(spec.id)).remove({ force: true });
    expect(await subject.observe(spec.id)).toEqual({ kind: 'absent' });
    await fixture.engine.destroy(spec.id, deadline());
    expect(await subject.owned(spec.ownerId)).toEqual([]);
    await expect(access(path.join(fixture.stateFolder, spec.id))).rejects.toThrow('ENOENT');
  });
});

describe('control files', () => {
  it('are written only when they differ, as new files in a private folder', async () => {
    const spec = subject.spec({ files: [control('token', 'secret', 0o600), control('note', 'old')] });
    await subject.ensure(spec);
    const folder = path.join(fixture.stateFolder, spec.id);
    const inodes = async (): Promise<number[]> =>
      Promise.all(['start', 'token', 'note'].map(async (name) => (await stat(path.join(folder, name))).ino));
    const [start, token, note] = await inodes();
    const changed = { ...spec, files: [...spec.files.slice(0, 2), control('note', 'new')] };
    await subject.ensure(changed);
    const after = await inodes();
    expect(after.slice(0, 2)).toEqual([start, token]);
    expect(after[2]).not.toBe(note);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect((await readdir(folder)).toSorted()).toEqual(['note', 'start', 'token']);
  });

  it('are open inside where the command of an image reads them, and closed to other users of the host', async () => {
    const { id } = subject.spec();
    const folder = path.join(await fixture.hostFolder(), 'control-files');
    await makeControlFiles(folder).write(id, [control('env', 'open', 0o644)], deadline());
    const modesOf = [folder, path.join(folder, id)].map(async (at) => (await stat(at)).mode & 0o777);
    expect(await Promise.all(modesOf)).toEqual([0o700, 0o755]);
  });

  it('can not leave their folder by name', async () => {
    for (const name of ['../x', '/etc/x', '.x', 'a/b', '']) {
      const spec = subject.spec({ files: [control(name, 'x')] });
      await expect(subject.ensure(spec)).rejects.toThrow('cannot have the name');
    }
  });
});

describe('isolation', () => {
  it('denies raw sockets, device nodes and new privileges, filters system calls, and limits shared memory', async () => {
    const spec = subject.spec({ memoryMiB: 256 });
    await subject.ensure(spec);
    const status = (await subject.exec(spec.id, 'cat', '/proc/self/status')).stdout;
    const field = (name: string): string => new RegExp(`^${name}:\\s*(\\S+)`, 'm').exec(status)?.[1] ?? '';
    const bounding = BigInt(`0x${field('CapBnd')}`);
    const [netRaw, mknod, sysAdmin, sysChroot] = [13n, 27n, 21n, 18n].map((bit) => (bounding >> bit) & 1n);
    expect([netRaw, mknod, sysAdmin]).toEqual([0n, 0n, 0n]);
    expect(sysChroot, 'sshd needs it').toBe(1n);
    expect([field('NoNewPrivs'), field('Seccomp')]).toEqual(['1', '2']);
    expect((await subject.exec(spec.id, 'df', '-k', '/dev/shm')).stdout).toMatch(/\s131072\s/);
    expect((await subject.exec(spec.id, 'mknod', '/tmp/x', 'c', '1', '3')).exitCode).not.toBe(0);
  });

  it('lets set-uid programs give the rights of root inside where the operator allows sudo', async () => {
    const users = 'root::0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\n';
    const prepare = `rm /bin/su; cp /bin/busybox /bin/su; chmod 4755 /bin/su; printf '${users}' >/etc/passwd`;
    const idOf = async (engine: Engine): Promise<string> => {
      const spec = subject.spec();
      await engine.ensure(spec, deadline());
      await subject.exec(spec.id, 'sh', '-c', prepare);
      const asUser = { User: '1000', Cmd: ['/bin/su', '-c', 'id -u'], AttachStdout: true, Tty: true };
      const exec = await fixture.docker.getContainer(containerName(spec.id)).exec(asUser);
      return text(await exec.start({ Tty: true }));
    };
    expect(await idOf(fixture.make({ sudo: true }))).toBe('0\r\n');
    expect(await idOf(fixture.engine)).not.toContain('0\r\n');
  });

  it('runs instances in one control group, which leaves processor, memory and processes to the host', async () => {
    const { cgroupParent, cgroupVersion, memoryMiB } = fixture.facts;
    expect(fixture.facts.isolation).toMatchObject({ hostReserve: true });
    const spec = subject.spec();
    await subject.ensure(spec);
    const { State } = await fixture.inspect(spec.id);
    const groups = await readFile(`/proc/${State.Pid}/cgroup`, 'utf8');
    expect(groups).toMatch(new RegExp(`:(.*,)?(pids|)(,.*)?:${cgroupParent?.replace(/^\/?/, '/')}/`, 'm'));
    const setting = async (ofFirst: string, ofSecond: string): Promise<number> => {
      const file =
        cgroupVersion === 1 ? `${ofFirst.split('.')[0]}/${cgroupParent}/${ofFirst}` : `${cgroupParent}/${ofSecond}`;
      return Number(await readFile(path.join('/sys/fs/cgroup', file), 'utf8'));
    };
    expect(await setting('cpu.shares', 'cpu.weight')).toBe(cgroupVersion === 1 ? 512 : 50);
    expect(await setting('memory.limit_in_bytes', 'memory.max')).toBe((memoryMiB - 1_024) * 1024 ** 2);
    const threads = Number(await readFile('/proc/sys/kernel/threads-max', 'utf8'));
    expect(await setting('pids.max', 'pids.max')).toBeLessThanOrEqual(threads * 0.75);
  });

  it('raises the limits of the kernel that instances share, and tells so', async () => {
    const files = kernelLimits.map(({ name }) => `/proc/sys/${name.replaceAll('.', '/')}`);
    const values = await Promise.all(files.map((file) => readFile(file, 'utf8').catch(() => null)));
    subject.after(async () => {
      for (const [index, file] of files.entries()) if (values[index]) await writeFile(file, values[index]);
    });
    const raising = fixture.make({ isolation: { ...isolation, kernelLimits: 'raise' } });
    expect((await raising.probe(deadline())).capabilities.isolation).toMatchObject({ kernelLimits: true });
    const watches = Number(await readFile('/proc/sys/fs/epoll/max_user_watches', 'utf8'));
    expect(watches).toBeGreaterThanOrEqual((fixture.facts.memoryMiB * 1024 ** 2) / 128);
  });
});

describe('dial', () => {
  it('uses a cached address while the event stream is open, and never a former one', async () => {
    const hints: string[] = [];
    const ending = new AbortController();
    subject.after(async () => ending.abort());
    fixture.engine.watch((id) => hints.push(id), ending.signal);
    const spec = subject.spec();
    await until('events arrive', async () => {
      await subject.ensure(spec);
      if (hints.includes(spec.id)) return true;
      await fixture.engine.destroy(spec.id, deadline());
      return false;
    });
    (await subject.dial(spec.id, echoPort)).destroy();
    await fixture.stopOutside(spec.id);
    await untilStopped(subject, spec.id);
    // Gets the address that was just released.
    const next = subject.spec({ ownerId: spec.ownerId });
    await subject.ensure(next);
    (await subject.dial(next.id, echoPort)).destroy();
    await expectFault(fixture.engine.dial(spec.id, echoPort, deadline()), 'not_found');
  });

  it('is aborted by its signal', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    await expectFault(fixture.engine.dial(spec.id, echoPort, AbortSignal.abort()), 'unreachable');
  });
});

describe('exec', () => {
  it('is aborted by its signal during endless output', async () => {
    const spec = subject.spec();
    await subject.ensure(spec);
    const abort = new AbortController();
    const running = fixture.engine.exec(spec.id, ['cat', '/dev/zero'], abort.signal);
    const refused = expectFault(running, 'unreachable');
    await until('it runs', async () => ((await fixture.inspect(spec.id)).ExecIDs ?? []).length > 0);
    abort.abort();
    await refused;
  });
});

describe('abort signals', () => {
  it('have no listener left after a hundred calls', async () => {
    const { signal } = new AbortController();
    const spec = subject.spec();
    await fixture.engine.ensure(spec, signal);
    for (let round = 0; round < 25; round++) {
      await fixture.engine.observe([spec.id], signal);
      await Array.fromAsync(await fixture.engine.logs(spec.id, 'console', { tail: 1 }, signal));
      await fixture.engine.listOwned(signal);
      await expectFault(fixture.engine.exec(newInstanceId(), ['true'], signal), 'not_found');
    }
    await fixture.engine.exec(spec.id, ['true'], signal);
    (await fixture.engine.dial(spec.id, echoPort, signal).catch(() => undefined))?.destroy();
    await until('none is left', async () => getEventListeners(signal, 'abort').length === 0);
  });
});

describe('a bad connection to the engine', () => {
  it('reports a silent engine as unreachable at the deadline, and its instances as unknown', async () => {
    await withSocket(fixture, net.createServer(), async (socketPath) => {
      const silent = fixture.make({ endpoint: { socketPath } });
      await expectFault(silent.probe(AbortSignal.timeout(100)), 'unreachable');
      const ids = Array.from({ length: 10 }, newInstanceId);
      const seen = await silent.observe(ids, AbortSignal.timeout(100));
      for (const id of ids) expect(seen.get(id)?.kind).toBe('unknown');
      await silent.stop();
    });
  });

  it('reports a truncated answer as unreachable, never absent', async () => {
    const lying = http.createServer((_request, response) => {
      response.writeHead(404, { 'content-type': 'application/json', 'content-length': 100 });
      response.write('{"message":"No such', () => response.destroy());
    });
    await withSocket(fixture, lying, async (socketPath) => {
      const engine = fixture.make({ endpoint: { socketPath } });
      const id = newInstanceId();
      expect((await engine.observe([id], AbortSignal.timeout(500))).get(id)?.kind).toBe('unknown');
      await expectFault(engine.destroy(id, AbortSignal.timeout(500)), 'unreachable');
      await engine.stop();
    });
  });

  it('reports an error or an invalid answer as unknown, never absent', async () => {
    const bodies = ['{"message":"database is locked"}', '<html>404 not found</html>'];
    for (const [status, body] of [
      [500, bodies[0]],
      [502, bodies[1]],
      [400, bodies[1]],
      [404, bodies[1]],
    ] as const) {
      const failing = http.createServer((_request, response) => void response.writeHead(status).end(body));
      await withSocket(fixture, failing, async (socketPath) => {
        const engine = fixture.make({ endpoint: { socketPath } });
        const ids = Array.from({ length: 6 }, newInstanceId);
        for (const asked of [ids.slice(0, 1), ids]) {
          const seen = await engine.observe(asked, deadline());
          expect([...seen.values()].map(({ kind }) => kind)).toEqual(asked.map(() => 'unknown'));
        }
        await expectFault(engine.destroy(ids[0] ?? newInstanceId(), deadline()), 'unreachable', 'rejected');
        expect((await expectFault(engine.listOwned(deadline()), 'unreachable', 'rejected')).message).not.toBe('');
        await engine.stop();
      });
    }
  });

  it('reopens the event stream after a cut, until stop()', async () => {
    const daemonSocket = 'socketPath' in endpoint ? endpoint.socketPath : expect.fail('this test needs a local socket');
    const links = new Set<net.Socket>();
    const between = net.createServer((client) => {
      const daemon = net.connect(daemonSocket);
      links.add(client);
      client.on('error', () => {}).on('close', () => daemon.destroy());
      daemon.on('error', () => {}).on('close', () => client.destroy());
      client.pipe(daemon).pipe(client);
    });
    await withSocket(fixture, between, async (socketPath) => {
      const engine = fixture.make({ endpoint: { socketPath } });
      const spec = subject.spec();
      const hints = new Set<InstanceId>();
      engine.watch((id) => hints.add(id), new AbortController().signal);
      const hinted = (): Promise<boolean> =>
        until('a hint came', async () => {
          await subject.ensure(spec);
          await fixture.engine.halt(spec.id, 5_000, deadline());
          return hints.has(spec.id);
        });
      await hinted();
      for (const link of links) link.destroy();
      await until('the cut is logged', async () =>
        fixture.warnings.some((line) => line.includes('stream of engine events')),
      );
      hints.clear();
      await hinted();
      await engine.stop();
      hints.clear();
      await subject.ensure(spec);
      await sleep(100);
      expect(hints.size).toBe(0);
    });
  });
});

describe('concurrency', () => {
  it('runs and destroys twelve concurrent launches of three accounts', async () => {
    const owners = [newUserId(), newUserId(), newUserId()];
    const specs = Array.from({ length: 12 }, (_, n) => subject.spec({ ownerId: owners[n % 3] ?? newUserId() }));
    for (const seen of await Promise.all(specs.map((spec) => subject.ensure(spec)))) expectRunning(seen);
    const seen = await fixture.engine.observe(
      specs.map(({ id }) => id),
      deadline(),
    );
    for (const { id } of specs) expectRunning(seen.get(id) ?? { kind: 'absent' });
    await Promise.all(specs.map(({ id }) => fixture.engine.destroy(id, deadline())));
    expect(await subject.owned(...owners)).toEqual([]);
  });
});
