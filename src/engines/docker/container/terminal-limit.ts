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
import { TERMINALS_OF_INSTANCE } from '../../../domain/instance-limits.ts';
import { processGroupOf } from '../host/process-group.ts';

const FOLDER = '/dev/pts';
const HELPER_MS = 5_000;

/** Calls fspick and fsconfig (Linux 5.2), with the same numbers on every architecture. */
const HELPER = `
use strict;
my ($folder, @options) = @ARGV;
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
  const folder = `/proc/${State.Pid}/root${FOLDER}`;
  const group = await processGroupOf(State.Pid);
  // Ended, and its id is another's; or a virtual machine, whose runtime sees the host's terminals.
  if (!group?.includes(Id) || (await stat(folder)).dev === (await stat(FOLDER)).dev) return;
  const options = terminalOptions(await readFile(`/proc/${State.Pid}/mountinfo`, 'utf8'));
  const args = ['-e', HELPER, '--', folder, ...options, `max=${TERMINALS_OF_INSTANCE}`];
  await promisify(execFile)('perl', args, { timeout: HELPER_MS });
}

/** Options that a change must name again, from `/proc/<pid>/mountinfo`. */
export function terminalOptions(mountinfo: string): string[] {
  const options = /^\S+ \S+ \S+ \S+ \/dev\/pts .* - devpts \S+ (\S+)$/m.exec(mountinfo)?.[1] ?? '';
  return options.split(',').filter((option) => /^(gid|uid|mode|ptmxmode)=/.test(option));
}
