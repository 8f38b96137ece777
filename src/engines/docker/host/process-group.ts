/** Control group that counts the processes of a container. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';

export const CGROUPS = '/sys/fs/cgroup';

/** Folder of the group of a process; null when unknown, or the group of the host itself. */
export const processGroupOf = (pid: number): Promise<string | null> => folderOf(pid, 'pids');

async function folderOf(pid: number, controller: Controller): Promise<string | null> {
  const group = groupIn(await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => ''), controller);
  return group === null || group.path === '/' ? null : path.join(CGROUPS, group.root, group.path);
}

type Controller = 'pids' | 'memory';

/** From `/proc/<pid>/cgroup`, for both versions of control groups. */
export function groupIn(text: string, controller: Controller): { root: string; path: string } | null {
  const first = new RegExp(`^\\d+:(?:[^:\\n]*,)?${controller}(?:,[^:\\n]*)?:(/.*)$`, 'm').exec(text)?.[1];
  if (first !== undefined) return { root: controller, path: first };
  const unified = /^0::(\/.*)$/m.exec(text)?.[1];
  return unified === undefined ? null : { root: '', path: unified };
}

/** Processes that the kernel killed in the group of a process for want of memory. */
export async function memoryKillsOf(pid: number): Promise<number | undefined> {
  const folder = await folderOf(pid, 'memory');
  if (folder === null) return undefined;
  const files = ['memory.events', 'memory.oom_control'].map((name) => readFile(path.join(folder, name), 'utf8'));
  const texts = await Promise.all(files.map((file) => file.catch(() => '')));
  const count = /^oom_kill (\d+)$/m.exec(texts.join('\n'))?.[1];
  return count === undefined ? undefined : Number(count);
}
