/**
 * # Limit on terminals
 *
 * `kernel.pty.max` counts for the whole host, and terminals are not charged to memory, so one
 * instance could take all. The file system at `/dev/pts` has a limit of its own (`max`), which an
 * engine cannot set: Berth sets it after the start. Root inside cannot, for want of `SYS_ADMIN`.
 */
import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { ContainerInspectInfo } from 'dockerode';
import { TERMINALS_OF_INSTANCE } from '../../../domain/compute/instance-limits.ts';
import { processGroupOf } from '../host/process-group.ts';

const FOLDER = '/dev/pts';
const HELPER_MS = 5_000;

/** Number of the system call setns. */
const SETNS: Partial<Record<NodeJS.Architecture, number>> = { x64: 308, arm64: 268 };

/**
 * Enters the mounts of the instance: root inside can change the root folder of a process, and a
 * symlink there would lead to the host's terminals. Then calls fspick and fsconfig (Linux 5.2),
 * with the same numbers on every architecture.
 */
const HELPER = `
use strict;
my ($setns, $mounts, $folder, $host, @options) = @ARGV;
open my $namespace, '<', $mounts or die "$mounts: $!\\n";
die "$mounts: $!\\n" if syscall $setns, fileno $namespace, 0x20000;
exit if (stat $folder)[0] == $host;
my $context = syscall 433, -100, $folder, 1;
die "$folder: $!\\n" if $context < 0;
for (@options) {
  my ($name, $value) = split /=/;
  die "$_: $!\\n" if syscall 431, $context, 1, $name, $value, 0;
}
die "$folder: $!\\n" if syscall 431, $context, 7, 0, 0, 0;
`;

/** Throws where the kernel or the host cannot. */
export async function limitTerminals({ Id, State }: Pick<ContainerInspectInfo, 'Id' | 'State'>): Promise<void> {
  const setns = SETNS[process.arch];
  if (setns === undefined) throw new Error(`not supported on ${process.arch}`);
  const group = await processGroupOf(State.Pid);
  // It has ended, and its id is another's.
  if (!group?.includes(Id)) return;
  const options = terminalOptions(await readFile(`/proc/${State.Pid}/mountinfo`, 'utf8'));
  // The runtime of a virtual machine sees the host's terminals.
  const host = (await stat(FOLDER)).dev;
  const target = [setns, `/proc/${State.Pid}/ns/mnt`, FOLDER, host].map(String);
  const args = ['-e', HELPER, '--', ...target, ...options, `max=${TERMINALS_OF_INSTANCE}`];
  await promisify(execFile)('perl', args, { timeout: HELPER_MS });
}

/** Options that a change must name again, from `/proc/<pid>/mountinfo`. */
export function terminalOptions(mountinfo: string): string[] {
  const options = /^\S+ \S+ \S+ \S+ \/dev\/pts .* - devpts \S+ (\S+)$/m.exec(mountinfo)?.[1] ?? '';
  return options.split(',').filter((option) => /^(gid|uid|mode|ptmxmode)=/.test(option));
}
