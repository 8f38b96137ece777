/** Control group that counts the processes of a container. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';

export const CGROUPS = '/sys/fs/cgroup';

/** Folder of the group of a process; null when unknown, or the group of the host itself. */
export async function processGroupOf(pid: number): Promise<string | null> {
  const group = pidsGroup(await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => ''));
  return group === null || group.path === '/' ? null : path.join(CGROUPS, group.root, group.path);
}

/** From `/proc/<pid>/cgroup`, for both versions of control groups. */
export function pidsGroup(text: string): { root: string; path: string } | null {
  const first = /^\d+:(?:[^:\n]*,)?pids(?:,[^:\n]*)?:(\/.*)$/m.exec(text)?.[1];
  if (first !== undefined) return { root: 'pids', path: first };
  const unified = /^0::(\/.*)$/m.exec(text)?.[1];
  return unified === undefined ? null : { root: '', path: unified };
}
