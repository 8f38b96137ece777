/**
 * Removes leftovers of a killed engine. dockerd refuses to start while its pid file names a living
 * process, and takes any process for its containerd. After a kill, and after a restart of a machine
 * that keeps `/run`, the number may belong to another program. A dead containerd's socket file is
 * as bad: dockerd sees it and waits for it.
 */
import { readFileSync, rmSync } from 'node:fs';
import net from 'node:net';

export const enginePidFiles = [
  { file: '/var/run/docker.pid', program: 'dockerd' },
  { file: '/var/run/docker/containerd/containerd.pid', program: 'containerd' },
];

/** dockerd uses its own containerd if this socket file exists. */
const containerdSocket = '/run/containerd/containerd.sock';

/**
 * @param {{ file: string, program: string, procFolder?: string }} given
 * @returns {'absent' | 'alive' | 'stale'} alive: the file names a running process of that program
 */
export function pidFileState({ file, program, procFolder = '/proc' }) {
  let text;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return 'absent';
  }
  const pid = text.trim();
  return /^[1-9]\d*$/.test(pid) && runs({ pid, program, procFolder }) ? 'alive' : 'stale';
}

/** @param {{ pid: string, program: string, procFolder: string }} given */
function runs({ pid, program, procFolder }) {
  try {
    const stat = readFileSync(`${procFolder}/${pid}/stat`, 'utf8');
    // `pid (name) state …`; the name may hold spaces and brackets. A zombie (Z) or dead (X) process
    // runs nothing.
    const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
    const state = stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
    return name === program && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}

/** @param {{ pidFiles?: { file: string, program: string }[], procFolder?: string }} [given] */
export function isDockerdAlive({ pidFiles = enginePidFiles, procFolder = '/proc' } = {}) {
  return pidFiles.some(
    ({ file, program }) => program === 'dockerd' && pidFileState({ file, program, procFolder }) === 'alive',
  );
}

/**
 * Removes what would keep dockerd from starting, and nothing that is in use.
 * @param {{ pidFiles?: { file: string, program: string }[], procFolder?: string,
 *   socketFiles?: string[] }} [given]
 * @returns {Promise<string[]>} the files removed
 */
export async function removeStale({
  pidFiles = enginePidFiles,
  procFolder = '/proc',
  socketFiles = [containerdSocket],
} = {}) {
  const removed = [];
  for (const { file, program } of pidFiles) {
    if (pidFileState({ file, program, procFolder }) !== 'stale') continue;
    rmSync(file, { force: true });
    removed.push(file);
  }
  for (const file of socketFiles) {
    if (!(await isDeadSocket(file))) continue;
    rmSync(file, { force: true });
    removed.push(file);
  }
  return removed;
}

/**
 * @param {string} file
 * @returns {Promise<boolean>} whether it is a socket on which nobody listens any more
 */
function isDeadSocket(file) {
  return new Promise((resolve) => {
    const socket = net.connect(file);
    socket.on('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.on('error', (error) => resolve('code' in error && error.code === 'ECONNREFUSED'));
  });
}
