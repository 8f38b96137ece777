/** Device nodes of the host's cards, and the access of containers. */
import { spawn } from 'node:child_process';
import { access, readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { CGROUPS } from '../host/process-group.ts';

const PROC = '/proc/driver/nvidia/gpus';
const DEV = '/dev';
const SHARED = ['nvidiactl', 'nvidia-uvm', 'nvidia-uvm-tools'];
const REREAD_MS = 60_000;
const HELPER_MS = 5_000;

export interface CardPlaces {
  /** Program of this machine that prints the readings. */
  smi?: string | undefined;
  /** Image with glibc, in which the program runs where this machine has none. */
  image?: string | undefined;
  proc?: string | undefined;
  dev?: string | undefined;
}

export interface CardNodes {
  of(uuid: string): Promise<string | null>;
  /** Existing nodes for a container of the cards. */
  forContainer(uuids: readonly string[]): Promise<string[]>;
}

export function makeCardNodes({ proc = PROC, dev = DEV }: CardPlaces = {}): CardNodes {
  let nodes = new Map<string, string>();
  let readMs = -Infinity;

  async function read(): Promise<void> {
    readMs = performance.now();
    const folders = await readdir(proc).catch(() => []);
    const texts = await Promise.all(
      folders.map((folder) => readFile(`${proc}/${folder}/information`, 'utf8').catch(() => '')),
    );
    nodes = new Map(
      texts.flatMap((one): [string, string][] => {
        const uuid = /^GPU UUID:\s*(\S+)/m.exec(one)?.[1];
        const minor = /^Device Minor:\s*(\d+)/m.exec(one)?.[1];
        return uuid === undefined || minor === undefined ? [] : [[uuid, `${dev}/nvidia${minor}`]];
      }),
    );
  }

  async function of(uuid: string): Promise<string | null> {
    if (!nodes.has(uuid) && performance.now() - readMs > REREAD_MS) await read();
    return nodes.get(uuid) ?? null;
  }

  return {
    of,
    async forContainer(uuids) {
      const own = await Promise.all(uuids.map(of));
      const wanted = [...SHARED.map((name) => `${dev}/${name}`), ...own.filter((node) => node !== null)];
      const there = await Promise.all(
        wanted.map((node) =>
          access(node).then(
            () => true,
            () => false,
          ),
        ),
      );
      return wanted.filter((_, nth) => there[nth]);
    },
  };
}

/** Null: unknown. Asks the kernel: root inside can change the nodes. */
export async function mayOpen(pid: number, node: string, cgroups = CGROUPS): Promise<boolean | null> {
  const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '');
  const first = /^\d+:(?:[^:\n]*,)?devices(?:,[^:\n]*)?:(\/.+)$/m.exec(groups)?.[1];
  if (first !== undefined) return isListed(path.join(cgroups, 'devices', first), node);
  const unified = /^0::(\/.+)$/m.exec(groups)?.[1];
  return unified === undefined ? null : opensWithin(path.join(cgroups, unified), node);
}

async function isListed(group: string, node: string): Promise<boolean | null> {
  const [list, device] = await Promise.all([
    readFile(path.join(group, 'devices.list'), 'utf8').catch(() => null),
    stat(node).catch(() => null),
  ]);
  return list === null || device === null ? null : allows(list, majorOf(device.rdev), minorOf(device.rdev));
}

const majorOf = (device: number): number => (device >>> 8) & 0xfff;
const minorOf = (device: number): number => (device & 0xff) | ((device >>> 12) & 0xfff00);

/** Rules of the first version of control groups: `c 195:* rwm`. */
export const allows = (list: string, major: number, minor: number): boolean =>
  list.split('\n').some((line) => {
    const [, ofMajor, ofMinor, rights = ''] = /^[ac] (\d+|\*):(\d+|\*) ([rwm]+)$/.exec(line) ?? [];
    const fits = (rule: string | undefined, number: number): boolean => rule === '*' || rule === String(number);
    return fits(ofMajor, major) && fits(ofMinor, minor) && rights.includes('r') && rights.includes('w');
  });

/** The second version shows no rules: a process of the group tries. */
async function opensWithin(group: string, node: string): Promise<boolean | null> {
  const script = 'echo 0 >"$1/cgroup.procs" || exit 9; exec 3<>"$2"';
  const shell = spawn('/bin/sh', ['-c', script, 'sh', group, node], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { LC_ALL: 'C' },
    timeout: HELPER_MS,
    killSignal: 'SIGKILL',
  });
  const exited = new Promise<number | null>((resolve) => {
    shell.on('close', resolve).on('error', () => resolve(null));
  });
  const [exitCode, error] = await Promise.all([exited, text(shell.stderr).catch(() => '')]);
  if (exitCode === 0) return true;
  return exitCode !== 9 && error.includes('Operation not permitted') ? false : null;
}
