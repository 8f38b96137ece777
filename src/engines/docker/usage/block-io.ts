/**
 * Bytes of block devices. Cgroups version 1 omits page cache writes, and everything on newer
 * kernels: there /proc/<pid>/io of local processes is summed. A process that ended counts with its
 * waiting parent, so only processes started from outside are lost.
 */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { processGroupOf } from '../host/process-group.ts';

export interface BlockBytes {
  readBytes: number | null;
  writtenBytes: number | null;
}

export interface DeviceBytes {
  major: number;
  minor: number;
  op: string;
  value: number;
}

const LOOP_MAJOR = 7;
const unknown: BlockBytes = { readBytes: null, writtenBytes: null };

/** `hasParts`: whether other devices of the host count the device's bytes, too. */
export function makeDeviceBytes(
  hasParts: (device: string) => Promise<boolean>,
): (listed: readonly DeviceBytes[]) => Promise<BlockBytes> {
  /** Whether the engine ever counted a device: without one, zero may mean "not counted". */
  let counts = false;
  const known = new Map<string, Promise<boolean>>();
  return async (listed) => {
    counts ||= listed.length > 0;
    if (!counts) return unknown;
    const sum = { read: 0, write: 0 };
    for (const { major, minor, op, value } of listed) {
      // Linux 5.14 and later also count loop devices at the device below.
      if (major === LOOP_MAJOR) continue;
      const device = `${major}:${minor}`;
      const parts = known.get(device) ?? hasParts(device);
      known.set(device, parts);
      if (await parts) continue;
      if (op.toLowerCase() === 'read') sum.read += value;
      if (op.toLowerCase() === 'write') sum.write += value;
    }
    return { readBytes: sum.read, writtenBytes: sum.write };
  };
}

/** True for LVM volumes, RAIDs, encrypted disks. */
export const hasPartsHere = (device: string): Promise<boolean> =>
  readdir(`/sys/dev/block/${device}/slaves`).then(
    (parts) => parts.length > 0,
    () => false,
  );

export async function bytesOfProcesses(pid: number): Promise<BlockBytes> {
  const pids = await processesOf(pid);
  const accounts = await Promise.all(pids.map((process) => readFile(`/proc/${process}/io`, 'utf8').catch(() => '')));
  const sum = (name: string): number =>
    accounts.reduce((all, text) => all + Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(text)?.[1] ?? 0), 0);
  return accounts.some((text) => text !== '')
    ? { readBytes: sum('read_bytes'), writtenBytes: sum('write_bytes') }
    : unknown;
}

/** Processes of the container whose main process is `pid`; empty when unknown. */
export async function processesOf(pid: number): Promise<string[]> {
  const folder = await processGroupOf(pid);
  return folder === null ? [] : pidsBelow(folder);
}

async function pidsBelow(folder: string): Promise<string[]> {
  const [text, entries] = await Promise.all([
    readFile(path.join(folder, 'cgroup.procs'), 'utf8').catch(() => ''),
    readdir(folder, { withFileTypes: true }).catch(() => []),
  ]);
  const groups = entries.filter((entry) => entry.isDirectory());
  const deeper = await Promise.all(groups.map(({ name }) => pidsBelow(path.join(folder, name))));
  return [...text.split('\n').filter((line) => line !== ''), ...deeper.flat()];
}
