/**
 * # Processes for an owner
 *
 * Lets an owner into an instance that has used up its processes. Raises the limit in the kernel
 * alone, not in the engine's record, from which the next server restores what a killed one raised.
 *
 * A fork bomb would take all that is raised, so other processes are stopped while a command starts,
 * and for its first two seconds: enough for `pkill -9 -f NAME`.
 */
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, stat, writeFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { makeBoundedMap } from '../../../async/bounded-map.ts';
import { makeKeyedMutex } from '../../../async/mutex.ts';
import { abortFault } from '../../../docker/faults.ts';
import { processGroupOf } from '../host/process-group.ts';
import { pollPauses } from './exec-start.ts';

/** The start of a command takes up to 16; the share is for instances with a small limit. */
const SHORT = 32;
const SHORT_SHARE = 1 / 4;
const SPARE = 128;
/** Bounds what a bomb gets while long commands run: it takes what they leave. */
const MAX_RAISE = 8 * SPARE;
/** Others are stopped for that long, or until the command ends. */
const HEAD_START_MS = 2_000;
const MAX_INSTANCES = 100_000;
/** Root inside can stop the shell that signals. */
const SIGNAL_MS = 2_000;
/** A process that waits for a processor stops late, and may finish a fork before. */
const STOP_MS = 5_000;

type Run = Pick<ContainerInspectInfo, 'Id' | 'State' | 'HostConfig'>;

export interface StartedCommand {
  hostPid: number;
  exited: Promise<unknown>;
}

export interface SpareProcesses {
  /** Raises the limit until the command ends, if few processes are left. An abort ends the wait. */
  start<T extends StartedCommand>(run: Run, start: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Restores the limit after a crash. Checks each container once. Never throws. */
  restore(run: Run): Promise<void>;
}

/** `nsenter`: null where Berth cannot write control groups of the engine. */
export function makeSpareProcesses(nsenter: () => Promise<string | null>): SpareProcesses {
  const raised = new Map<string, number>();
  const checked = makeBoundedMap<true>({ maxEntries: MAX_INSTANCES });
  const mutex = makeKeyedMutex<string>({ abortError: abortFault });

  async function groupOf(run: Run): Promise<Group | null> {
    const limit = run.HostConfig.PidsLimit ?? 0;
    const program = await nsenter();
    if (limit <= 0 || !run.State.Running || program === null) return null;
    const folder = await processGroupOf(run.State.Pid);
    // A foreign group: the process has ended, and its id is another's.
    if (!folder?.includes(run.Id)) return null;
    return { folder, limit, pid: run.State.Pid, nsenter: program };
  }

  async function isShort(group: Group): Promise<boolean> {
    const left = group.limit - (await numberIn(group, 'pids.current'));
    return left < Math.min(SHORT, group.limit * SHORT_SHARE);
  }

  async function release(id: string, group: Group): Promise<void> {
    const others = (raised.get(id) ?? 1) - 1;
    if (others > 0) return void raised.set(id, others);
    raised.delete(id);
    await setLimit(group, group.limit);
  }

  return {
    async start(run, start, signal) {
      const group = await groupOf(run);
      if (group === null || !(await isShort(group))) return start();
      const unlock = await mutex.acquire(run.Id, signal);
      raised.set(run.Id, (raised.get(run.Id) ?? 0) + 1);
      const endHeadStart = async (): Promise<void> => {
        await signalAll(group, 'CONT');
        unlock();
      };
      const end = (): Promise<void> => release(run.Id, group);
      try {
        // Above the limit before the stop: tells the next server to continue the processes.
        await setLimit(group, group.limit + 1);
        if (await signalAll(group, 'STOP')) await untilStopped(group);
        await setLimit(group, Math.min((await numberIn(group, 'pids.current')) + SPARE, group.limit + MAX_RAISE));
        const started = await start();
        await raisePriority(started.hostPid, run.Id);
        void Promise.race([started.exited, sleep(HEAD_START_MS)]).then(endHeadStart, endHeadStart);
        void started.exited.then(end, end);
        return started;
      } catch (error) {
        await endHeadStart();
        await end();
        throw error;
      }
    },

    async restore(run) {
      if (checked.get(run.Id)) return;
      const group = await groupOf(run);
      if (group === null || raised.has(run.Id)) return;
      checked.set(run.Id, true);
      if ((await numberIn(group, 'pids.max')) <= group.limit) return;
      await signalAll(group, 'CONT');
      await setLimit(group, group.limit);
    },
  };
}

interface Group {
  folder: string;
  limit: number;
  pid: number;
  nsenter: string;
}

const numberIn = ({ folder }: Group, file: string): Promise<number> =>
  readFile(path.join(folder, file), 'utf8').then(Number, () => 0);

const setLimit = ({ folder }: Group, limit: number): Promise<void> =>
  writeFile(path.join(folder, 'pids.max'), String(limit)).catch(() => {});

/** Signals all processes inside but the first, by a shell of the host; false: some may not be. */
async function signalAll({ folder, pid, nsenter }: Group, signal: 'STOP' | 'CONT'): Promise<boolean> {
  const namespace = await open(`/proc/${pid}/ns/pid`).catch(() => null);
  if (namespace === null) return false;
  try {
    if ((await namespace.stat()).ino === (await stat('/proc/self/ns/pid')).ino) return false;
    // Opened before: a process of the group means that the namespace is the instance's.
    if ((await processGroupOf(pid)) !== folder) return false;
    const command = ['--pid=/proc/self/fd/3', '--', '/bin/sh', '-c', `kill -${signal} -1`];
    const stdio: StdioOptions = ['ignore', 'ignore', 'ignore', namespace.fd];
    const shell = spawn(nsenter, command, { stdio, env: {}, detached: true });
    const timer = setTimeout(() => killGroup(shell), SIGNAL_MS);
    const [exitCode] = await once(shell, 'close').finally(() => clearTimeout(timer));
    return exitCode === 0;
  } catch {
    return false; // The command then starts as best it can.
  } finally {
    await namespace.close();
  }
}

/** nsenter and its shell: killed alone, nsenter would leave the shell behind. */
function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // Both have ended.
  }
}

async function untilStopped({ folder, pid }: Group): Promise<void> {
  const deadlineMs = performance.now() + STOP_MS;
  for (const pauseMs of pollPauses()) {
    const pids = (await readFile(path.join(folder, 'cgroup.procs'), 'utf8').catch(() => '')).trim().split('\n');
    const states = await Promise.all(pids.filter((one) => Number(one) !== pid).map(stateOf));
    if (states.every((state) => state === null || 'TZX'.includes(state)) || performance.now() > deadlineMs) return;
    await sleep(pauseMs);
  }
}

/** Letter of proc(5); null: the process has ended. The name in parentheses may hold anything. */
export const stateOf = (pid: string): Promise<string | null> =>
  readFile(`/proc/${pid}/stat`, 'utf8').then(
    (text) => /^.*\) (.)/s.exec(text)?.[1] ?? null,
    () => null,
  );

/** Within the instance: its share of the host's processors stays the same. */
async function raisePriority(pid: number, containerId: string): Promise<void> {
  if (!(await processGroupOf(pid))?.includes(containerId)) return;
  try {
    setPriority(pid, constants.priority.PRIORITY_HIGHEST);
  } catch {
    // The command has ended.
  }
}
