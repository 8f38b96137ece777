/**
 * # Mounts for containers in a user namespace
 *
 * Files on the host keep the ids that instances see, with and without `userns-remap`. A container
 * gets them through ID-mapped mounts (Linux 5.12), which add the start of the engine's range
 * (`docs/decisions/0040-disks-are-id-mapped.md`). The mounts exist during a start only: a helper
 * removes them when its input ends, so also when Berth dies. Their folders go too, so no container
 * ever starts on an empty folder in place of a disk.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, open, writeFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerCreateOptions } from 'dockerode';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import type { IdRange } from '../client/id-range.ts';
import { CONTROL_FOLDER } from './create-options.ts';

export interface IdMappedMounts {
  /** Makes the mounts of a container until `close`; returns the request that binds them. */
  open(request: ContainerCreateOptions, range: IdRange | null): Promise<ContainerCreateOptions>;
  close(...containers: string[]): Promise<void>;
  stop(): Promise<void>;
}

export const idMappedFolder = (stateFolder: string): string => join(stateFolder, '.mounts');

export function makeIdMappedMounts(folder: string): IdMappedMounts {
  const helpers = new Map<string, ChildProcess>();
  const namespaces = new Map<string, Promise<FileHandle>>();

  function namespaceOf(range: IdRange): Promise<FileHandle> {
    const key = Object.values(range).join(':');
    const namespace = namespaces.get(key) ?? openNamespace(range);
    namespaces.set(key, namespace);
    namespace.catch(() => namespaces.delete(key));
    return namespace;
  }

  async function close(...containers: string[]): Promise<void> {
    const ending = containers.map((name) => helpers.get(name));
    for (const name of containers) helpers.delete(name);
    await Promise.all(ending.flatMap((helper) => (helper ? [endHelper(helper)] : [])));
  }

  return {
    async open(given, range) {
      if (range === null) return given;
      const { request, name, paths } = withIdMappedMounts(given, folder);
      if (helpers.has(name)) return request;
      try {
        if (process.getuid?.() !== 0) throw new Error('Berth does not run as root');
        await mkdir(folder, { recursive: true, mode: 0o700 });
        helpers.set(name, await startHelper(await namespaceOf(range), [join(folder, name), ...paths]));
      } catch (cause) {
        throw mountFault(cause);
      }
      return request;
    },
    close,
    async stop() {
      await close(...helpers.keys());
      for (const namespace of namespaces.values()) await namespace.then((one) => one.close()).catch(() => {});
    },
  };
}

/** `paths`: for each mount its source, its mount point, and its kind. */
function withIdMappedMounts(given: ContainerCreateOptions, folder: string) {
  const { name = '', HostConfig } = given;
  const paths: string[] = [];
  const mounts = (HostConfig?.Mounts ?? []).map((mount) => {
    // The same for all starts: a container keeps its paths.
    const point = join(folder, name, createHash('sha256').update(mount.Target).digest('hex').slice(0, 16));
    const isDataSet = mount.ReadOnly === true && mount.Target !== CONTROL_FOLDER;
    paths.push(mount.Source, point, isDataSet ? 'data set' : 'disk');
    return { ...mount, Source: point };
  });
  const request: ContainerCreateOptions = { ...given, HostConfig: { ...HostConfig, Mounts: mounts } };
  return { request, name, paths };
}

/** User namespace without a process, which only describes the engine's range. */
async function openNamespace({ uid, gid, count }: IdRange): Promise<FileHandle> {
  const holder = spawn('unshare', ['--user', 'sh', '-c', 'echo && exec cat'], { stdio: ['pipe', 'pipe', 'ignore'] });
  const ended = once(holder, 'close');
  try {
    await Promise.race([once(holder.stdout, 'data'), ended.then(() => Promise.reject(new Error('unshare failed')))]);
    await writeFile(`/proc/${holder.pid}/uid_map`, `0 ${uid} ${count}\n`);
    await writeFile(`/proc/${holder.pid}/gid_map`, `0 ${gid} ${count}\n`);
    return await open(`/proc/${holder.pid}/ns/user`);
  } finally {
    holder.stdin.end();
    await ended;
  }
}

/**
 * Takes a folder for mount points, then `paths`; the namespace is descriptor 3. A data set whose
 * file system maps no ids, such as NFS, keeps its owners. The system calls are open_tree,
 * mount_setattr and move_mount, with the same numbers on every architecture.
 */
const HELPER = `
use strict;
$SIG{$_} = 'IGNORE' for qw(HUP INT TERM);
$| = 1;
my ($folder, @paths) = @ARGV;
my ($empty, $map, @points, @made) = ('', pack('Q4', 0x100000, 0, 0, 3));
mkdir $folder, 0700;
eval {
  while (my ($from, $to, $kind) = splice @paths, 0, 3) {
    push @points, $to;
    mkdir $to, 0700 or system 'umount', '--lazy', '--quiet', '--', $to;
    my $mount = syscall 428, -100, $from, 02100001;
    die "$from cannot be cloned: $!\\n" if $mount < 0;
    my $failed = syscall 442, $mount, $empty, 0x9000, $map, 32;
    die "ids of $from cannot be mapped: $!\\n" if $failed && $kind ne 'data set';
    die "$from cannot be mounted: $!\\n" if syscall 429, $mount, $empty, -100, $to, 4;
    push @made, $to;
  }
  print "\\n";
  1 while sysread STDIN, my $rest, 1;
};
print STDERR $@;
system 'umount', '--lazy', '--', @made if @made;
rmdir $_ for @points, $folder;
`;

async function startHelper(namespace: FileHandle, args: string[]): Promise<ChildProcess> {
  const helper = spawn('perl', ['-e', HELPER, '--', ...args], { stdio: ['pipe', 'pipe', 'pipe', namespace.fd] });
  let errors = '';
  helper.stderr?.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const failed = once(helper, 'close').then(() => Promise.reject(new Error(errors.trim())));
  await Promise.race([helper.stdout && once(helper.stdout, 'data'), failed]);
  failed.catch(() => {});
  return helper;
}

async function endHelper(helper: ChildProcess): Promise<void> {
  if (helper.exitCode !== null || helper.signalCode !== null) return;
  const ended = once(helper, 'close');
  helper.stdin?.end();
  await ended;
}

function mountFault(cause: unknown): EngineFault {
  const isMissing = errorText(cause).includes('No such file or directory');
  const text = isMissing
    ? 'a folder to mount does not exist on the host'
    : 'the engine has user namespaces, and the disks of the instance cannot be mounted for them; ask the operator, who needs Berth as root, Linux 5.12, perl, and disks on a file system with ID-mapped mounts';
  return new EngineFault('rejected', text, { retry: true, reason: 'badMount', cause });
}
