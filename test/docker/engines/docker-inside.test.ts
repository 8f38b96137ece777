/**
 * Docker inside instances of the default image, with real disks: features, limits, isolation. Needs
 * root. Builds the two images when they are absent (a minute).
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import http from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { longDescribe, longTest } from '../../fixtures/long-test.ts';
import type { InstanceId, UserId } from '../../../src/domain/kernel/ids.ts';
import type { Engine, EngineSpec } from '../../../src/engines/contract.ts';
import type { DockerMode } from '../../../src/engines/docker/client/host-facts.ts';
import { BUILD_DEADLINE_MS, ensureDefaultImage } from '../../fixtures/default-images.ts';
import { dockerName } from '../../../src/engines/labels.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';
import { prepareRoot } from '../../../src/storage/layout.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import {
  control,
  deadline,
  expectFault,
  expectRunning,
  newUserId,
  skipWithout,
  until,
  type Subject,
} from '../../conformance/subject.ts';
import type { EgressPolicy } from '../../../src/domain/regions/egress.ts';
import { removeChains } from '../../../scripts/lib/packet-filter.ts';
import { OUTSIDE, startOutsideHost, TCP_ALLOWED, TCP_OTHER } from './outside-host.ts';
import { endpoint, onDocker, type DockerFixture } from './docker-fixture.ts';
import { withSocket } from './sockets.ts';

const run = promisify(execFile);
const IMAGES = join(import.meta.dirname, '../../../images');
const DISK_GB = 1;

let fixture: DockerFixture;
let subject: Subject;
onDocker((made) => {
  ({ fixture, subject } = made);
});

let lab: string;
let storage: Storage;
let notebook: string;
/** Data disk with the tar of a tiny image. */
let dataDisk: string;

beforeAll(async () => {
  lab = await mkdtemp(join(tmpdir(), 'docker-inside-'));
  const at = { root: join(lab, 'disks'), installation: fixture.installation };
  await prepareRoot(at);
  storage = makeImageFileStorage({ ...at, copies: 'live' });
  notebook = await ensureDefaultImage(fixture.docker, 'notebook');
  const signal = AbortSignal.timeout(BUILD_DEADLINE_MS);
  await fixture.engine.ensureImage(fixture.engine.dockerImageRef ?? '', () => {}, signal);
  dataDisk = join(lab, 'data');
  await packTiny(dataDisk);
}, BUILD_DEADLINE_MS);
afterAll(async () => {
  await rm(lab, { recursive: true });
});

beforeEach((context) => skipWithout('dockerInside', subject, context));

/** Packs busybox as `tiny.tar`, and a file for containers that mount the folder. */
async function packTiny(folder: string): Promise<void> {
  const bin = join(folder, 'root/bin');
  await mkdir(bin, { recursive: true });
  for (const name of ['tmp', 'etc', 'mnt']) await mkdir(join(folder, 'root', name));
  await copyFile('/bin/busybox', join(bin, 'busybox'));
  for (const name of [
    'sh',
    'cat',
    'echo',
    'ls',
    'dd',
    'head',
    'tail',
    'httpd',
    'nc',
    'mount',
    'mknod',
    'ps',
    'sleep',
    'id',
  ])
    await symlink('busybox', join(bin, name));
  await run('tar', ['-C', join(folder, 'root'), '--owner=0', '--group=0', '-cf', join(folder, 'tiny.tar'), '.']);
  await rm(join(folder, 'root'), { recursive: true });
  await writeFile(join(folder, 'note'), 'from the disk\n', { mode: 0o644 });
}

interface LaunchOptions {
  owner?: UserId;
  engine?: Engine;
  initScript?: string;
  docker?: boolean;
  memoryMiB?: number;
}

interface Inside {
  id: InstanceId;
  spec: EngineSpec;
  /** Runs a shell script in the instance. */
  sh(script: string): Promise<{ exitCode: number; stdout: string; stderr: string }>;
  /** The same; a non-zero exit fails the test. */
  ok(script: string): Promise<string>;
}

const LOAD = 'docker import /root/dataDisk/tiny.tar tiny >/dev/null';

/** Launches an instance as control does, with a ready Docker that has the tiny image. */
async function launch(options: LaunchOptions = {}): Promise<Inside> {
  const { owner = newUserId(), engine = fixture.engine, initScript = '', docker = true, memoryMiB = 1024 } = options;
  const bare = subject.spec({ ownerId: owner, imageRef: notebook, cpuMilli: 2000, memoryMiB, pidsLimit: 600 });
  const files = [
    control('start', await readFile(join(IMAGES, 'start.sh'), 'utf8'), 0o555),
    control('init-script', initScript, 0o555),
    control('authorized_keys', ''),
    control('notebook-token', randomUUID(), 0o600),
    control('env', `export BERTH_INSTANCE_ID=${bare.id}\nexport BERTH_BASE_URL=/notebook/${bare.id}/\n`),
  ];
  const spec: EngineSpec = {
    ...bare,
    files,
    mounts: [{ source: dataDisk, target: '/root/dataDisk', readOnly: false }],
  };
  const disk = { kind: 'docker', id: spec.id } as const;
  if (docker) {
    await storage.create(disk, DISK_GB, deadline());
    spec.docker = { storage: await storage.mount(disk) };
    subject.after(async () => {
      await fixture.engine.destroy(spec.id, deadline());
      await storage.destroy(disk);
    });
  }
  expectRunning(await engine.ensure(spec, deadline()));
  const inside: Inside = {
    id: spec.id,
    spec,
    sh: (script) => engine.exec(spec.id, ['sh', '-c', script], deadline()),
    async ok(script) {
      const { exitCode, stdout, stderr } = await inside.sh(script);
      expect(exitCode, `${script}: ${stderr}${stdout}`).toBe(0);
      return stdout.trim();
    },
  };
  if (docker) {
    await dockerAnswers(inside);
    if (initScript === '') await inside.ok(LOAD);
  }
  return inside;
}

const dockerAnswers = (inside: Inside): Promise<unknown> =>
  until('its Docker answers', async () => (await inside.sh('docker version')).exitCode === 0);

const MUCH = 300 * 2 ** 20;

/** Whether the memory of its Docker counts as the instance's: more than the rest ever has. */
async function holdsMuch(engine: Engine, inside: Inside): Promise<boolean> {
  const holding = `docker run -d --name much --tmpfs /much tiny sh -c 'head -c ${MUCH} /dev/zero >/much/file; sleep 600'`;
  await inside.sh(`docker start much || ${holding}`);
  const used = await engine.usage([inside.id], deadline());
  return (used.get(inside.id)?.memoryBytes ?? 0) > MUCH;
}

async function engineOf(mode: DockerMode): Promise<Engine> {
  const imageRef = fixture.engine.dockerImageRef ?? '';
  return fixture.make({ dockerInside: { mode, imageRef } });
}

describe('Docker inside an instance', () => {
  it('loads and runs an image, even in the init script', async () => {
    const inside = await launch({ initScript: `${LOAD} && docker run --rm tiny echo it runs >/root/said` });
    const said = await until(
      'the script has ended',
      async () => (await inside.sh('cat /var/log/berth/init.exit')).stdout || undefined,
    );
    expect(said).toBe('0\n');
    expect(await inside.ok('cat /root/said')).toBe('it runs');
  });

  longTest('publishes ports in the instance for the gateway, and resolves names', async () => {
    const inside = await launch();
    await inside.ok('docker run -d -p 8123:80 tiny sh -c "echo served >/tmp/index.html; exec httpd -f -p 80 -h /tmp"');
    const got = await until('the page is served', async () => (await inside.sh('curl -sf localhost:8123')).stdout);
    expect(got).toBe('served\n');
    (await fixture.engine.dial(inside.id, 8123, deadline())).destroy();
    const own = await inside.ok('hostname -i');
    expect(await inside.ok('docker run --rm tiny busybox nslookup $(hostname)')).toContain(own);
  });

  longTest('mounts the instance’s disks at their paths, with their modes', async () => {
    const inside = await launch();
    expect(await inside.ok('docker run --rm -v /root/dataDisk:/data tiny cat /data/note')).toBe('from the disk');
    expect((await inside.sh('docker run --rm -v /root/dataDisk:/data tiny sh -c "echo >/data/mine"')).exitCode).toBe(1);
    await inside.ok('mkdir -m 0777 /root/dataDisk/open');
    await inside.ok('docker run --rm -v /root/dataDisk/open:/data tiny sh -c "echo theirs >/data/file"');
    expect(await inside.ok('cat /root/dataDisk/open/file')).toBe('theirs');
    await inside.ok('rm -r /root/dataDisk/open');
    // A path of the root disk is an error, not an empty folder.
    const elsewhere = await inside.sh('mkdir /root/work; docker run --rm -v /root/work:/w tiny ls /w');
    expect(elsewhere.exitCode).not.toBe(0);
  });

  longTest('fills only its own disk, and starts again on the full one for a clean-up', async () => {
    const inside = await launch();
    const filling =
      'docker run --name big tiny dd if=/dev/zero of=/big bs=1M; docker run --name rest tiny dd if=/dev/zero of=/big bs=512';
    expect((await inside.sh(filling)).stderr).toContain('No space left on device');
    await inside.ok('head -c 50000000 /dev/zero >/root/fine; rm /root/fine; echo >/root/dataDisk/fine');
    await fixture.engine.halt(inside.id, 5_000, deadline());
    await storage.unmount({ kind: 'docker', id: inside.id });
    inside.spec.docker = { storage: await storage.mount({ kind: 'docker', id: inside.id }) };
    await subject.ensure(inside.spec);
    await dockerAnswers(inside);
    await inside.ok('docker rm big rest');
    await inside.ok('docker run --rm tiny dd if=/dev/zero of=/big bs=1M count=300');
  });

  longTest('retains images, containers and volumes over a stop and a start of the instance', async () => {
    const inside = await launch();
    await inside.ok('docker run --name kept -v state:/state tiny sh -c "echo one >>/state/file"');
    const hears = `trap 'echo heard >/heard/file; exit 0' TERM; echo >/heard/ready; while :; do sleep 0.1; done`;
    await inside.ok(`docker run -d -v heard:/heard tiny sh -c "${hears}"`);
    const ready = 'docker run --rm -v heard:/heard tiny cat /heard/ready';
    await until('it is ready', async () => (await inside.sh(ready)).exitCode === 0);
    await fixture.engine.halt(inside.id, 20_000, deadline());
    await subject.ensure(inside.spec);
    await dockerAnswers(inside);
    await inside.ok('docker start -a kept');
    expect(await inside.ok('docker run --rm -v state:/state tiny cat /state/file')).toBe('one\none');
    expect(
      await inside.ok('docker run --rm -v heard:/heard tiny cat /heard/file'),
      'the container received SIGTERM',
    ).toBe('heard');
    // A start has a new network; published ports belong to it.
    await inside.ok('docker run -d -p 8123:80 tiny httpd -f -p 80');
    await until('it answers', async () => (await inside.sh('curl -s localhost:8123')).exitCode === 0);
  });

  longTest('restarts after a kill, with its data', async () => {
    const inside = await launch();
    const { State } = await fixture.docker.getContainer(dockerName(inside.id)).inspect();
    process.kill(State.Pid, 'SIGKILL');
    await until('another sidecar runs', async () => {
      const now = await fixture.docker.getContainer(dockerName(inside.id)).inspect();
      return now.State.Running && now.State.Pid !== State.Pid;
    });
    await dockerAnswers(inside);
    expect(await inside.ok('docker run --rm tiny echo again')).toBe('again');
    expect(expectRunning(await subject.observe(inside.id)).docker).toBe('running');
  });

  longTest('shares the instance’s limits: a memory hog is killed, and counts as the instance’s usage', async () => {
    const inside = await launch({ memoryMiB: 512 });
    expect((await inside.sh('docker run --rm tiny tail /dev/zero')).exitCode).not.toBe(0);
    expectRunning(await subject.observe(inside.id));
    await dockerAnswers(inside);
    await until('the memory is counted', () => holdsMuch(fixture.engine, inside));
  });

  longTest("has equal, separate limits where they can't be shared, and its usage is added", async () => {
    const daemonSocket = 'socketPath' in endpoint ? endpoint.socketPath : expect.fail('this test needs a local socket');
    const between = http.createServer((request, response) => {
      const { url, method, headers } = request;
      const onward = http.request({ socketPath: daemonSocket, path: url, method, headers }, (answer) => {
        if (url === '/info') {
          void text(answer).then((info) => response.end(JSON.stringify({ ...JSON.parse(info), CgroupVersion: '2' })));
          return;
        }
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      request.pipe(onward);
    });
    between.on('upgrade', ({ method, url, rawHeaders }, client, early) => {
      const fields = rawHeaders.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
      const onward = connect(daemonSocket).on('error', () => client.destroy());
      onward.write(`${method} ${url} HTTP/1.1\r\n${fields}\r\n`);
      onward.write(early);
      onward.pipe(client).pipe(onward);
    });
    await withSocket(fixture, between, async (socketPath) => {
      const engine = fixture.make({ endpoint: { socketPath } });
      const inside = await launch({ engine });
      const { HostConfig } = await fixture.docker.getContainer(dockerName(inside.id)).inspect();
      expect(HostConfig).toMatchObject({ Memory: 1024 * 2 ** 20, NanoCpus: 2e9, PidsLimit: 600, CgroupParent: '' });
      await until('the memory is counted', () => holdsMuch(engine, inside));
      await engine.stop();
    });
  });

  longTest('is refused with a remedy on an engine without support', async () => {
    const off = fixture.make({ dockerInside: undefined });
    const spec = subject.spec({ docker: { storage: await fixture.hostFolder() } });
    const fault = await expectFault(off.ensure(spec, deadline()), 'rejected');
    expect(fault.retry).toBe(false);
    expect(fault.message).toContain('BERTH_DOCKER_INSIDE=off');
    expect((await off.probe(deadline())).capabilities).toMatchObject({ dockerInside: false });
    // A running instance stays, and gets new control files.
    const running = subject.spec({ docker: { storage: await fixture.hostFolder() }, memoryMiB: 512, pidsLimit: 256 });
    const before = expectRunning(await subject.ensure(running));
    const files = [...running.files, control('more', 'here')];
    expect(await off.ensure({ ...running, files }, deadline())).toEqual(before);
    expect((await subject.exec(running.id, 'cat', '/etc/berth/more')).stdout).toBe('here');
    const gone = subject.spec({ docker: { storage: join(await fixture.hostFolder(), 'gone') } });
    expect(await expectFault(subject.ensure(gone), 'rejected')).toMatchObject({ reason: 'badMount', retry: true });
  });
});

longDescribe('an instance without a Docker', () => {
  longTest('has no socket, and finds none on the account’s network', async () => {
    const owner = newUserId();
    const neighbour = await launch({ owner });
    const without = await launch({ owner, docker: false });
    expect((await without.sh('docker version')).stderr).toContain('Cannot connect');
    expect(
      await without.ok('find / -xdev -type s -name "*docker*" 2>/dev/null; ls /run/berth-docker 2>&1 | wc -l'),
    ).toBe('1');
    const address = await neighbour.ok('hostname -i');
    const listens = await neighbour.ok(
      'ls /proc/net/tcp >/dev/null && cat /proc/net/tcp /proc/net/tcp6 | grep -c " 0A "',
    );
    // ssh, the notebook, and the engine's name server.
    expect(Number(listens)).toBeLessThanOrEqual(4);
    for (const port of [2375, 2376, 2377, 4243])
      expect((await without.sh(`DOCKER_HOST=tcp://${address}:${port} docker version`)).stderr).toContain(
        'Cannot connect',
      );
  });

  longTest('is within the egress policy of its instance', async () => {
    subject.after(() => removeChains(fixture.installation));
    await startOutsideHost(subject);
    const pool = { cidr: '10.216.16.0/20', prefix: 24 };
    const inside = await launch({ engine: fixture.make({ networkPool: pool, linkLocal: 'closed' }) });
    const engine = fixture.make({ networkPool: pool, linkLocal: 'closed' });
    await engine.probe(deadline());
    const reach = (port: number): Promise<string> =>
      inside
        .sh(`echo | docker run --rm -i tiny nc -w 3 ${OUTSIDE} ${port}`)
        .then(({ stdout }) => (stdout.includes('outside') ? 'outside' : 'refused'));
    expect(await reach(TCP_OTHER)).toBe('outside');
    const ports = [String(TCP_ALLOWED)];
    const policy: EgressPolicy = { mode: 'list', allow: [{ cidr: OUTSIDE, ports }] };
    await engine.setEgress({ default: policy, accounts: new Map() }, deadline());
    expect([await reach(TCP_ALLOWED), await reach(TCP_OTHER)]).toEqual(['outside', 'refused']);
  });

  longTest('launched from the image of one with Docker, has no broken link', async () => {
    const had = await launch();
    const ref = `berth.local/saved/${randomUUID()}:1`;
    await fixture.engine.saveImage(had.id, ref, deadline());
    const without = subject.spec({ imageRef: ref, files: had.spec.files.slice(1), memoryMiB: 512, pidsLimit: 256 });
    const spec = { ...without, files: had.spec.files };
    await subject.ensure(spec);
    await until(
      'it has begun',
      async () =>
        (await Array.fromAsync(await fixture.engine.logs(spec.id, 'console', { tail: 5 }, deadline()))).length > 0,
    );
    await until(
      'the link is gone',
      async () => (await subject.exec(spec.id, 'readlink', '/var/run/docker.sock')).exitCode === 1,
    );
    expect(await subject.observe(spec.id)).not.toHaveProperty('docker');
  });
});

describe('a rootless Docker', () => {
  const corePattern = '/proc/sys/kernel/core_pattern';

  it('gives no access to the kernel, to devices, or to other programs', async () => {
    const before = await readFile(corePattern, 'utf8');
    const inside = await launch();
    await inside.ok('docker run --rm --cap-add ALL --security-opt seccomp=unconfined tiny mount -t tmpfs none /mnt');
    const { stdout: loop } = await run('losetup', ['-f']);
    const attempts = [
      'docker run --rm --privileged tiny true',
      `docker run --rm -v /proc:/p tiny sh -c 'echo "|/bin/true" >/p/sys/kernel/core_pattern'`,
      `docker run --rm --security-opt systempaths=unconfined tiny sh -c 'echo x >${corePattern}'`,
      `docker run --rm -v /sys:/s tiny sh -c 'echo x >/s/kernel/uevent_helper'`,
      `docker run --rm -v /sys/fs/cgroup:/c tiny sh -c 'echo x >/c/memory/release_agent || echo 1 >/c/memory/memory.limit_in_bytes || echo 1 >/c/memory.max'`,
      `docker run --rm --cap-add ALL --security-opt seccomp=unconfined tiny sh -c 'mknod /tmp/disk b 7 0 && head -c 1 /tmp/disk'`,
      `docker run --rm --device ${loop.trim()} tiny head -c 1 ${loop.trim()}`,
      'docker run --rm --cap-add ALL --security-opt seccomp=unconfined tiny mount -t debugfs none /mnt',
      'docker run --rm --cap-add ALL --security-opt seccomp=unconfined tiny mount -t cgroup -o memory none /mnt',
      `docker run --rm --pid=host -v /proc:/p tiny sh -c 'cat /p/1/environ | head -c 1 | ls /p/1/root/'`,
      `docker run --rm -v /:/h tiny sh -c 'echo x >/h/usr/local/sbin/docker-inside'`,
      'docker run --rm --cap-add ALL --security-opt seccomp=unconfined tiny busybox insmod /bin/busybox',
      `docker run --rm --cap-add ALL --security-opt seccomp=unconfined tiny sh -c 'busybox date -s 2001-01-01; busybox date +%Y | busybox grep 2001'`,
    ];
    for (const attempt of attempts) {
      const { exitCode, stdout, stderr } = await inside.sh(attempt);
      expect(exitCode, `${attempt}: ${stdout}`).not.toBe(0);
      // Refused, not for lack of a program to try.
      expect(stderr, attempt).toMatch(/denied|not permitted|read-only|no such file/i);
    }
    expect(await readFile(corePattern, 'utf8')).toBe(before);
    // A user that escapes a container is neither root nor a user of the host.
    const { State } = await fixture.docker.getContainer(dockerName(inside.id)).inspect();
    await inside.ok('docker run -d --name asleep tiny sleep 600');
    const tops = await fixture.docker.getContainer(dockerName(inside.id)).top({ ps_args: '-eo pid,uid,args' });
    const asleep = tops.Processes.find((one: string[]) => /\bsleep 600/.test(one.join(' ')));
    expect(Number(asleep?.[1])).toBe(1_879_048_192);
    const status = await readFile(`/proc/${State.Pid}/status`, 'utf8');
    expect(status).toMatch(/^CapBnd:\t00000000000000c0$/m);
  });

  longTest('gives no access to processes and files of its instance or of other instances', async () => {
    const [one, other] = [await launch(), await launch()];
    await one.ok('echo secret >/root/secret; SECRET=known sleep 4321 &');
    await one.ok('docker tag tiny only-mine; docker run -d --name only-mine tiny sleep 600');
    expect(await other.ok('docker images only-mine -q; docker ps -aq')).toBe('');
    const seen = await other.ok('docker run --rm --pid=host tiny ps');
    expect(seen).toContain('dockerd');
    expect(seen).not.toMatch(/sleep (600|4321)|sshd|jupyter/);
    expect((await one.sh('docker run --rm -v /root:/r tiny cat /r/secret')).exitCode).not.toBe(0);
    const own = await one.ok('docker run --rm --pid=host tiny ps');
    expect(own).not.toContain('4321');
    // A container mounts the socket of its own daemon.
    const mounted =
      'docker run --rm -v /var/run/docker.sock:/s tiny sh -c "echo -e \'GET /images/json HTTP/1.0\\n\' | nc local:/s"';
    expect((await other.sh(mounted)).stdout).not.toContain('only-mine');
  });
});

longDescribe('a nested Docker', () => {
  longTest(
    'limits memory of its containers, serves their ports, is bounded by its disk, and starts without images',
    async () => {
      const inside = await launch({ engine: await engineOf('nested') });
      await inside.ok(
        'docker run --rm -v /root/dataDisk:/data tiny sh -c "echo >/data/as-root"; rm /root/dataDisk/as-root',
      );
      const limit = 'cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max';
      expect(await inside.ok(`docker run --rm -m 64m tiny sh -c '${limit}'`)).toBe(String(64 * 2 ** 20));
      await inside.ok('docker run -d -p 8123:80 tiny httpd -f -p 80');
      await until('it answers', async () => (await inside.sh('curl -s localhost:8123')).exitCode === 0);
      expect((await inside.sh('docker run --name big tiny dd if=/dev/zero of=/big bs=1M')).stderr).toContain(
        'No space left',
      );
      await inside.ok('docker rm big');
      await fixture.engine.halt(inside.id, 5_000, deadline());
      await subject.ensure(inside.spec);
      await dockerAnswers(inside);
      expect(await inside.ok('docker images -q')).toBe('');
    },
  );
});
