/**
 * A second `dockerd` with folders, socket and containerd of its own, which a test may kill. It
 * leaves the packet filter and host settings alone: node ports are served by its userland proxy,
 * and containers are reached over their bridge, both from this machine only. Needs root and
 * Debian's `dockerd`. The default bridge is lent by the main engine, since a dockerd without one
 * removes the main engine's `docker0`.
 */
import { randomBytes } from 'node:crypto';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, mkdir, mkdtemp, open, readdir, readFile, readlink, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import Docker from 'dockerode';
import { makeDockerClient } from '../../../src/docker/docker-client.ts';
import { endpoint, importBusybox } from '../engines/docker-fixture.ts';
import { inHostNetwork } from '../engines/host-network.ts';
import { until } from '../../fixtures/server-process.ts';
import type { TlsAuthority } from '../../fixtures/tls-authority.ts';

const run = promisify(execFile);
const START_DEADLINE_MS = 60_000;
const ANSWER_DEADLINE_MS = 2_000;
/** Longer than an engine holds a bridge before it lists the network. */
const UNHEARD_OF_MS = 3_000;
/** Links to the sockets of the engines that tests have started, which run beside each other. */
const ENGINES = join(tmpdir(), 'berth-test-engines');

/** Ids of an engine with user namespaces, of an existing user. No other test may use either. */
export interface EngineIds {
  user: string;
  first: number;
  count: number;
}

export interface EngineOptions {
  /** Absent: no user namespaces. */
  ids?: EngineIds;
  /** Further names of runc. */
  runtimes?: readonly string[];
  /** Folder of its `PATH` before all others, with the default runtime `nvidia`. */
  nvidia?: string;
  /** Also listens on a port of the loopback address, for clients with a certificate. */
  tls?: { port: number; authority: TlsAuthority };
}

export interface OwnEngine {
  /** Address of the engine in the form of `DOCKER_HOST`. */
  dockerHost: string;
  socketPath: string;
  docker: Docker;
  /** Imports a tiny image with a shell and no listener under the name. */
  importTiny(ref: string): Promise<void>;
  /** Sends the signal. Containers end with it or, after SIGKILL, at the next start. */
  kill(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Starts it on its existing data, with other options if given, and waits until it answers. */
  start(changed?: EngineOptions): Promise<void>;
  /**
   * Replaces the shim of a container while the engine is gone by one without a process to watch,
   * as an engine leaves that is killed during a start.
   */
  replaceShim(container: string): Promise<void>;
  /** Folder in which its containerd keeps the files of a run. */
  bundleOf(container: string): string;
  /** Ends it and removes everything it made. */
  stop(): Promise<void>;
}

/** `under`: parent folder of its data. */
export async function startOwnEngine({
  under = tmpdir(),
  ...given
}: { under?: string } & EngineOptions = {}): Promise<OwnEngine> {
  const folder = await mkdtemp(join(under, 'berth-engine-'));
  // Root of a user namespace enters the folders of its containers.
  await chmod(folder, 0o711);
  const [socketPath, pidFile, logFile] = ['docker.sock', 'docker.pid', 'log'].map((name) => join(folder, name));
  if (socketPath === undefined || pidFile === undefined || logFile === undefined) throw new Error('no names');
  const docker = new Docker({ socketPath });
  // Has at most 15 characters, the limit for interface names.
  const bridge = `berth${randomBytes(4).toString('hex')}`;
  const { docker: main, stop: leaveMain } = makeDockerClient(endpoint);
  const createdNetwork = await main.createNetwork({
    Name: bridge,
    Labels: { 'berth.test': `own engine in ${folder}` },
    Options: { 'com.docker.network.bridge.name': bridge },
  });
  const args = [
    ['--data-root', join(folder, 'data')],
    ['--exec-root', join(folder, 'exec')],
    ['--pidfile', pidFile],
    ['--host', `unix://${socketPath}`],
    ['--bridge', bridge, '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false'],
    ['--log-level', 'warn'],
  ].flat();
  let child: ChildProcess | null = null;
  let options: EngineOptions = given;

  const answers = (): Promise<boolean> =>
    docker.listNetworks({ abortSignal: AbortSignal.timeout(ANSWER_DEADLINE_MS) }).then(
      () => true,
      () => false,
    );

  async function start(changed: EngineOptions = options): Promise<void> {
    await removeIds(options.ids);
    options = changed;
    await addIds(options.ids);
    // A killed engine leaves its pid files, and another process may have taken the number.
    for (const file of [pidFile ?? '', join(folder, 'exec/containerd/containerd.pid')]) await rm(file, { force: true });
    const log = await open(logFile ?? '', 'a');
    const started = spawn('dockerd', [...args, ...flagsOf(options)], {
      env: { ...process.env, PATH: [options.nvidia ?? [], process.env['PATH'] ?? ''].flat().join(':') },
      stdio: ['ignore', log.fd, log.fd],
      detached: true,
    });
    await log.close();
    child = started;
    const ended = new Promise<never>((_, reject) => {
      started.once('error', reject);
      started.once('exit', (code) => void says(code).then(reject));
    });
    await Promise.race([until(answers, (yes) => yes, START_DEADLINE_MS), ended]);
    ended.catch(() => {});
  }

  const says = async (code: number | null): Promise<Error> =>
    new Error(`dockerd ended with ${code}: ${(await readFile(logFile, 'utf8')).slice(-2_000)}`);

  async function kill(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null || running.signalCode !== null) return;
    const gone = new Promise((resolve) => running.once('exit', resolve));
    running.kill(signal);
    await gone;
    // containerd dies shortly after its parent; a dockerd started in between would wait forever.
    const containerd = Number(await readFile(join(folder, 'exec/containerd/containerd.pid'), 'utf8').catch(() => ''));
    if (containerd > 0)
      await until(
        async () => send(containerd, 0),
        (yes) => !yes,
        START_DEADLINE_MS,
      );
  }

  const bundleOf = (container: string): string =>
    join(folder, 'exec/containerd/daemon/io.containerd.runtime.v2.task/moby', container);

  async function removeAll(): Promise<void> {
    if (child === null) await start();
    const containers = (): Promise<Docker.ContainerInfo[]> => docker.listContainers({ all: true });
    for (const { Id } of await containers())
      await docker
        .getContainer(Id)
        .remove({ force: true, v: true })
        .catch((error: Error & { statusCode?: number }) => {
          // Another one removes it.
          if (error.statusCode !== 404 && error.statusCode !== 409) throw error;
        });
    await until(containers, ({ length }) => length === 0, START_DEADLINE_MS);
    for (const { Id, Name } of await docker.listNetworks())
      if (!['none', 'host', 'bridge'].includes(Name)) await docker.getNetwork(Id).remove();
  }

  /**
   * An engine with a full disk leaves the bridges of networks it could not record, and no engine
   * can tell which they were.
   */
  async function removeBridgesOfNobody(): Promise<void> {
    const ofNobody = async (): Promise<Set<string>> => {
      const others = (await readdir(ENGINES)).map((name) => new Docker({ socketPath: join(ENGINES, name) }));
      const abortSignal = AbortSignal.timeout(ANSWER_DEADLINE_MS);
      const lists = await Promise.all(others.map((engine) => engine.listNetworks({ abortSignal }).catch(() => [])));
      const heardOf = [await main.listNetworks(), ...lists].flat().map(({ Id }) => `br-${Id.slice(0, 12)}`);
      return new Set(await readdir('/sys/class/net')).difference(new Set(heardOf));
    };
    const links = [...(await ofNobody())].filter((name) => /^br-[0-9a-f]{12}$/.test(name) && !before.has(name));
    if (links.length === 0) return;
    await sleep(UNHEARD_OF_MS);
    const still = await ofNobody();
    const image = `berth.local/test-links:${bridge}`;
    await importBusybox(main, image, folder);
    // An interface that is gone meanwhile is fine.
    const script = links.filter((name) => still.has(name)).map((name) => `ip link del ${name} || true`);
    await inHostNetwork(main, image, script.join('\n'));
    await main.getImage(image).remove({ force: true });
  }

  /**
   * A killed engine forgets containers being created, and removing them does not end their
   * processes. One not yet started waits for a file in the engine's folder; a started one has its
   * root there. Both would keep the mounts.
   */
  async function endForgotten(): Promise<void> {
    for (const pid of await processes()) {
      const command = await commandOf(pid);
      const isShim = isShimOf(folder, command);
      const isHalfMade = command.startsWith('runc\0init') && (await opens(pid)).some((path) => path.startsWith(folder));
      if (isShim || isHalfMade || (await rootOf(pid)).includes(folder)) send(Number(pid), 'SIGKILL');
    }
  }

  const before = new Set(await readdir('/sys/class/net'));
  async function removeTraces(): Promise<void> {
    await kill('SIGTERM');
    await endForgotten();
    await removeBridgesOfNobody();
    for (const mount of await mountsUnder(folder)) await run('umount', [mount]);
    await createdNetwork.remove();
    await rm(join(ENGINES, bridge));
    await removeIds(options.ids);
    leaveMain();
    await rm(folder, { recursive: true, force: true });
  }

  await mkdir(ENGINES, { recursive: true });
  await symlink(socketPath, join(ENGINES, bridge));
  await start().catch(async (error: unknown) => {
    await removeTraces();
    throw error;
  });
  return {
    dockerHost: `unix://${socketPath}`,
    socketPath,
    docker,
    importTiny: (ref) => importBusybox(docker, ref, folder),
    kill,
    start,
    bundleOf,
    async replaceShim(container) {
      for (const pid of await processes()) if (isShimOf(container, await commandOf(pid))) send(Number(pid), 'SIGKILL');
      const cwd = bundleOf(container);
      const address = ['-address', join(folder, 'exec/containerd/containerd.sock')];
      const args = ['-namespace', 'moby', '-id', container, ...address, 'start'];
      // The shim stays, with the streams it got.
      await once(spawn('containerd-shim-runc-v2', args, { cwd, stdio: 'ignore' }), 'exit');
    },
    async stop() {
      await removeAll();
      await removeTraces();
    },
  };
}

const flagsOf = ({ ids, runtimes = [], nvidia, tls }: EngineOptions): string[] => [
  ...(tls === undefined
    ? []
    : [
        ['--host', `tcp://127.0.0.1:${tls.port}`, '--tlsverify', '--tlscacert', tls.authority.caFile],
        ['--tlscert', tls.authority.server.certFile, '--tlskey', tls.authority.server.keyFile],
      ].flat()),
  ...(ids === undefined ? [] : ['--userns-remap', ids.user]),
  ...(nvidia === undefined ? [] : ['--default-runtime', 'nvidia', '--add-runtime', `nvidia=${nvidia}/nvidia-runtime`]),
  ...runtimes.flatMap((name) => ['--add-runtime', `${name}=runc`]),
];

const idTables = ['/etc/subuid', '/etc/subgid'];
const lineOf = ({ user, first, count }: EngineIds): string => `${user}:${first}:${count}`;

async function addIds(ids: EngineIds | undefined): Promise<void> {
  if (ids === undefined) return;
  for (const table of idTables) await appendFile(table, `${lineOf(ids)}\n`);
}

/** Another test may change the tables at the same time. */
async function removeIds(ids: EngineIds | undefined): Promise<void> {
  if (ids === undefined) return;
  const script = 'kept=$(grep -vxF -- "$1" "$0"; echo .); printf %s "${kept%.}" >"$0"';
  for (const table of idTables) await run('flock', [table, 'sh', '-c', script, table, lineOf(ids)]);
}

/** Ids of all running processes. */
const processes = async (): Promise<string[]> => (await readdir('/proc')).filter((name) => /^\d+$/.test(name));

/** Arguments of a process, each ended by a zero; empty if it is gone. */
const commandOf = (pid: string): Promise<string> => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');

const isShimOf = (named: string, command: string): boolean =>
  command.includes('containerd-shim') && command.includes(named);

/** Files a process has open; empty if it is gone. */
async function opens(pid: string): Promise<string[]> {
  const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
  return Promise.all(fds.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')));
}

/** Source of a process's root mount; empty if it is gone. */
async function rootOf(pid: string): Promise<string> {
  const table = await readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => '');
  return table.split('\n').find((line) => line.split(' ')[4] === '/') ?? '';
}

/** False if there is no such process. */
function send(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/** Mounts that outlive the engine, innermost first. */
async function mountsUnder(folder: string): Promise<string[]> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  const points = table.split('\n').map((line) => line.split(' ')[4] ?? '');
  return points.filter((point) => point.startsWith(`${folder}/`)).sort((a, b) => b.length - a.length);
}
