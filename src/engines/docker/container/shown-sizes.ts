/**
 * # Sizes that programs see
 *
 * `/proc` and `/sys` of a container show the host's processors and memory. Berth mounts over them:
 * over `/sys/devices/system/cpu/online`, which the C library counts, a file with the instance's
 * set; over files of `/proc` those of the host's lxcfs. The mounts are made after a start and end
 * with the run, so no start depends on lxcfs. Root inside lacks `SYS_ADMIN` to change them.
 */
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { ContainerInspectInfo } from 'dockerode';
import type { EngineLog } from '../../engine-log.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import { errorCode, errorText } from '../../../domain/kernel/unknown-error.ts';
import type { EngineSpec } from '../../contract.ts';
import { installationLabel, labels } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { abortFault } from '../../../docker/faults.ts';
import type { HostFacts } from '../client/host-facts.ts';
import type { Lxcfs } from '../host/lxcfs.ts';
import { processGroupOf } from '../host/process-group.ts';
import { makeWarnings } from '../host/warnings.ts';
import { inspectContainer, listContainers } from './container-calls.ts';

const ONLINE = '/sys/devices/system/cpu/online';
const OF_LXCFS = ['cpuinfo', 'loadavg', 'meminfo', 'stat', 'swaps', 'uptime'];
const HELPER_MS = 5_000;
const INSTANCES_AT_ONCE = 4;

/** Numbers of the system calls setns and umount2. */
const CALLS: Partial<Record<NodeJS.Architecture, [number, number]>> = { x64: [308, 166], arm64: [268, 39] };

/**
 * Takes pairs of a file of the host ('' for none) and a path inside, whose mount it replaces, by
 * open_tree, mount_setattr and move_mount. A virtual machine's runtime has the host's /proc.
 */
const HELPER = `
use strict;
my ($setns, $umount, $mounts, @pairs) = @ARGV;
my ($host, $empty, $locked, @tasks) = ((stat '/proc')[0], '', pack('Q4', 15, 0, 0, 0));
while (my ($from, $to) = splice @pairs, 0, 2) {
  my $mount = $from eq '' ? -1 : syscall 428, -100, $from, 02000001;
  die "$from: $!\\n" if $from ne '' && ($mount < 0 || syscall 442, $mount, $empty, 0x1000, $locked, 32);
  push @tasks, [$mount, $to];
}
open my $namespace, '<', $mounts or die "$mounts: $!\\n";
die "$mounts: $!\\n" if syscall $setns, fileno $namespace, 0x20000;
exit if (stat '/proc')[0] == $host;
for (@tasks) {
  my ($mount, $to) = @$_;
  1 until syscall $umount, $to, 2;
  die "$to: $!\\n" if $mount >= 0 && syscall 429, $mount, $empty, -100, $to, 4;
}
`;

type Run = Pick<ContainerInspectInfo, 'Id' | 'State' | 'HostConfig'>;

export interface ShownSizes {
  show(run: Run, spec: Pick<EngineSpec, 'cpuMilli' | 'runtime'>): Promise<void>;
  /** Mounts that of a new lxcfs, or unmounts that of a dead one, in all running instances. */
  followLxcfs(signal: AbortSignal): Promise<void>;
}

export interface ShownSizesDeps {
  client: DockerClient;
  installation: string;
  facts: (signal: AbortSignal) => Promise<HostFacts>;
  folder: string;
  log: Pick<EngineLog, 'warn'>;
}

export function makeShownSizes({ client, installation, facts, folder, log }: ShownSizesDeps): ShownSizes {
  const warn = makeWarnings(log);
  let followed: string | undefined;

  async function onlineFile(run: Run, cpuMilli: number): Promise<string> {
    const processors = run.HostConfig.CpusetCpus || `0-${Math.ceil(cpuMilli / 1_000) - 1}`;
    const file = join(folder, processors);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(file, `${processors}\n`, { flag: 'wx', mode: 0o444 }).catch((error: unknown) => {
      if (errorCode(error) !== 'EEXIST') throw error;
    });
    return file;
  }

  async function mount({ Id, State }: Run, lxcfs: Lxcfs, online: string | null): Promise<void> {
    const calls = CALLS[process.arch];
    if (calls === undefined) throw new Error(`not supported on ${process.arch}`);
    const group = await processGroupOf(State.Pid);
    // It has ended, and its id is another's.
    if (!group?.includes(Id)) return;
    const pairs = lxcfsPairs(await readFile(`/proc/${State.Pid}/mountinfo`, 'utf8'), lxcfs);
    if (online !== null) pairs.push([online, ONLINE]);
    if (pairs.length === 0) return;
    const args = ['-e', HELPER, '--', ...calls.map(String), `/proc/${State.Pid}/ns/mnt`, ...pairs.flat()];
    await promisify(execFile)('perl', args, { timeout: HELPER_MS, killSignal: 'SIGKILL' });
  }

  const failed = (error: unknown): void =>
    warn(
      `an instance sees the host's processors or memory: ${errorText(error).trim()}; Linux 5.12 and perl are needed`,
    );

  async function followInto(id: string, lxcfs: Lxcfs, signal: AbortSignal): Promise<void> {
    const info = await inspectContainer(client, id, signal);
    if (info?.State.Running) await mount(info, lxcfs, null);
  }

  return {
    async show(run, { cpuMilli, runtime }) {
      // Another runtime shows sizes of its own.
      if (runtime !== undefined) return;
      try {
        const { lxcfs, nsenter } = await facts(AbortSignal.timeout(HELPER_MS));
        if (nsenter === null) return;
        const online = await onlineFile(run, cpuMilli);
        // The lxcfs may have ended since the last probe.
        await mount(run, lxcfs, online).catch(() => mount(run, { whyNot: '' }, online));
      } catch (error) {
        failed(error);
      }
    },
    async followLxcfs(signal) {
      try {
        const { lxcfs, nsenter } = await facts(signal);
        const state = JSON.stringify(lxcfs);
        if (nsenter === null || state === followed) return;
        const ours = [installationLabel(installation), `${labels.kind}=instance`];
        const running = (await listContainers(client, ours, signal)).filter(({ State }) => State === 'running');
        const some = makeSemaphore(INSTANCES_AT_ONCE, { abortError: abortFault });
        await Promise.all(running.map(({ Id }) => some.run(() => followInto(Id, lxcfs, signal), { signal })));
        followed = state;
      } catch (error) {
        failed(error);
      }
    },
  };
}

/** Pairs for the helper: what to unmount, and what to mount, from `/proc/<pid>/mountinfo`. */
export function lxcfsPairs(mountinfo: string, lxcfs: Lxcfs): [file: string, target: string][] {
  const present = new Map(
    [...mountinfo.matchAll(/^\S+ \S+ (\S+) \S+ (\/proc\/\S+) .* - fuse\.lxcfs /gm)].map(([, device, target]) => [
      target,
      device,
    ]),
  );
  const { folder, device } = 'device' in lxcfs ? lxcfs : { folder: null, device: undefined };
  return OF_LXCFS.map((name): [string, string] => [folder === null ? '' : join(folder, name), `/proc/${name}`]).filter(
    ([, target]) => present.get(target) !== device,
  );
}
