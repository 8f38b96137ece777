/** A node: namespaces on this machine, and the processes in them. Needs root. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Layout } from './addresses.ts';

export interface NodeOptions {
  layout: Layout;
  /** First node of the cluster, which routes for the others; absent for itself. */
  first?: { pid: number; folder: string } | undefined;
  /** State, configuration and logs. */
  folder: string;
  /** Whether `stop` removes the folder. */
  isTemporary: boolean;
  programs: string;
  cniPlugins: string;
}

export interface Node {
  /** Process id of PID 1 of the node. */
  pid: number;
  /** Starts a program that runs until `kill`, with its output in `NAME.log`. */
  start(name: string, command: readonly string[]): void;
  /** Ends a program with SIGKILL; returns when it has ended. */
  kill(name: string): Promise<void>;
  isRunning(name: string): boolean;
  /** Runs a program to its end, and throws unless it succeeds. */
  run(command: readonly string[], input?: Readable): Promise<string>;
  /** Last lines of each log. */
  log(name: string): Promise<string>;
  stop(): Promise<void>;
}

/** Joins the control groups of the node, then its namespaces. */
const ENTER = `
  group=$1 pid=$2; shift 2
  for procs in /sys/fs/cgroup/$group/system/cgroup.procs /sys/fs/cgroup/*/$group/system/cgroup.procs; do
    [ ! -e $procs ] || echo $$ >$procs
  done
  exec nsenter --target $pid --mount --net --pid --ipc --uts -- "$@"`;

export async function startNode({
  layout,
  first,
  folder,
  isTemporary,
  programs,
  cniPlugins,
}: NodeOptions): Promise<Node> {
  const logs = path.join(folder, 'log');
  await mkdir(logs, { recursive: true });
  const logOf = (name: string): string => path.join(logs, `${name}.log`);
  const host = spawn(path.join(import.meta.dirname, 'node-host.sh'), [], {
    env: {
      PATH: process.env['PATH'],
      NODE_NAME: layout.nodeName,
      GROUP: layout.groups,
      INTERFACE: layout.groups,
      ROUTER: first === undefined ? '' : String(first.pid),
      DISKS: first === undefined ? '' : path.join(first.folder, 'var/lib/csi-driver'),
      HOST_ADDRESS: layout.hostAddress,
      NODE_ADDRESS: layout.nodeAddress,
      ROUTES: first === undefined ? `${layout.pods} ${layout.services} ${layout.links}` : layout.podsOfNode,
      ROUTES_BACK: first === undefined ? '' : `${layout.pods} ${layout.links}`,
      SERVICES: layout.services,
      SIMULATED_PODS: first === undefined ? layout.simulatedPods : '',
      FOLDER: folder,
      PROGRAMS: programs,
      CNI_PLUGINS: cniPlugins,
      TEMPORARY: isTemporary ? 'yes' : 'no',
    },
    // Ctrl-C for the tests is none for the node: its stdin ends with them.
    detached: true,
    stdio: 'pipe',
  });
  const ended = new Promise<void>((resolve) => host.once('exit', () => resolve()));
  const pid = await untilReady(host);
  const enter = (command: readonly string[], stdio: 'pipe' | [number, number, number]): ChildProcess =>
    spawn('/bin/sh', ['-c', ENTER, 'sh', layout.groups, String(pid), ...command], { cwd: '/', stdio });

  const running = new Map<string, ChildProcess>();
  return {
    pid,
    start(name, command) {
      if (running.has(name)) throw new Error(`${name} runs already in ${layout.groups}.`);
      const [input, output] = [openSync('/dev/null', 'r'), openSync(logOf(name), 'a')];
      const child = enter(command, [input, output, output]);
      for (const descriptor of [input, output]) closeSync(descriptor);
      running.set(name, child);
      child.once('exit', () => running.delete(name));
    },
    async kill(name) {
      const child = running.get(name);
      if (child === undefined) return;
      // nsenter has one child, the program, and ends with it.
      for (; running.get(name) === child; await delay(10)) for (const pid of await childrenOf(child)) killProcess(pid);
    },
    isRunning: (name) => running.has(name),
    async run(command, input) {
      const child = enter(command, 'pipe');
      const exited = once(child, 'exit') as Promise<[number | null]>;
      const output = Promise.all([child.stdout, child.stderr].map(async (stream) => (stream ? text(stream) : '')));
      if (child.stdin && input) await pipeline(input, child.stdin).catch(() => {});
      else child.stdin?.end();
      const [code] = await exited;
      const [stdout = '', stderr = ''] = await output;
      if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}: ${stderr || stdout}`);
      return stdout;
    },
    log: async (name) => lastLines(await readFile(logOf(name), 'utf8').catch(() => '')),
    async stop() {
      host.stdin?.end();
      await ended;
    },
  };
}

async function untilReady(host: ChildProcess): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let errors = '';
  host.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  host.once('error', reject);
  host.once('close', (code) => reject(new Error(`The namespaces of a node were not made (${code}): ${errors}`)));
  if (host.stdout) {
    createInterface(host.stdout).on('line', (line) => {
      const pid = /^ready (\d+)$/.exec(line)?.[1];
      if (pid !== undefined) resolve(Number(pid));
    });
  }
  return promise;
}

async function childrenOf({ pid }: ChildProcess): Promise<number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return children.split(' ').filter(Boolean).map(Number);
}

function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

const lastLines = (log: string): string => log.trimEnd().split('\n').slice(-15).join('\n');
