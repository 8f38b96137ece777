/** Processes of the host that hold a disk: by a copy of its mount in a namespace, or by files. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { HostProcess } from '../contract.ts';

const MAX_USERS = 5;

const readOrEmpty = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '');
const targetOf = (path: string): Promise<string> => readlink(path).catch(() => '');

/**
 * Names at most five processes, one of each mount namespace that has the device mounted, then those
 * with files below `mountPoint`. Processes that end meanwhile are left out.
 */
export async function findDiskUsers(device: string | null, mountPoint: string): Promise<HostProcess[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).toSorted((a, b) => Number(a) - Number(b));
  const users: string[] = [];
  const number =
    device === null ? '' : (await readOrEmpty(join('/sys/block', device.slice('/dev/'.length), 'dev'))).trim();
  const seen = new Set([await targetOf('/proc/self/ns/mnt')]);
  for (const pid of pids) {
    const namespace = await targetOf(`/proc/${pid}/ns/mnt`);
    if (namespace === '' || seen.has(namespace)) continue;
    seen.add(namespace);
    const table = await readOrEmpty(`/proc/${pid}/mountinfo`);
    if (number !== '' && table.split('\n').some((line) => line.split(' ')[2] === number)) users.push(pid);
  }
  for (const pid of pids) if (users.length < MAX_USERS && (await hasFilesBelow(pid, mountPoint))) users.push(pid);
  return Promise.all(
    users.slice(0, MAX_USERS).map(async (pid) => ({
      pid: Number(pid),
      command: (await readOrEmpty(`/proc/${pid}/comm`)).trim(),
    })),
  );
}

async function hasFilesBelow(pid: string, folder: string): Promise<boolean> {
  const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const links = ['cwd', 'root', 'exe', ...fds.map((fd) => `fd/${fd}`)];
  const targets = await Promise.all(links.map((link) => targetOf(`/proc/${pid}/${link}`)));
  return targets.some((target) => target === folder || target.startsWith(`${folder}/`));
}
