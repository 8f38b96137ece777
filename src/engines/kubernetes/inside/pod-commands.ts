/**
 * # Commands inside an instance
 *
 * The API starts a command in a container: without an environment, and without a way to end it. So
 * a shell starts it, and first writes the id of the process that leads the command's group. Kills
 * are commands, too.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Readable } from 'node:stream';
import { onAbort, raceAbort } from '../../../async/abort.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { ProcessSignal } from '../../../domain/compute/process-signals.ts';
import { isFailure } from '../../../kubernetes/api-error.ts';
import type { Pod } from '../../../kubernetes/api-objects.ts';
import type { PodExec } from '../../../kubernetes/pod-exec.ts';
import type { ExecRequest, OpenExec } from '../../contract.ts';
import { killCommand } from '../../kill-scripts.ts';
import { ownPod, runningPod, type ClusterContext } from '../cluster-context.ts';
import { faultOf, notRunning } from '../cluster-faults.ts';
import { MAIN_CONTAINER, podName } from '../manifests/object-names.ts';
import { ENDED_MARK } from '../manifests/pod-template.ts';
import { isRunning } from '../state/run-state.ts';
import { environmentInput, readProcessId, withEnvironmentInput, withProcessId } from '../../process-id.ts';

const KILLED_EXIT_CODE = 137;
const KILL_MS = 30_000;
/** The end of a container shows a moment after the end of its commands. */
const CHECKS_AFTER_KILLED = 3;
const CHECK_PAUSE_MS = 100;

export interface CommandOptions {
  context: ClusterContext;
  id: InstanceId;
  request: ExecRequest;
  /** Opening only. */
  signal: AbortSignal;
  /** Leaves the open command, which goes on. */
  leaving?: AbortSignal | undefined;
  /** Without input: reads from nothing. */
  noInput?: boolean;
}

export async function openCommand(options: CommandOptions): Promise<OpenExec> {
  const { context, id, signal } = options;
  try {
    const pod = await runningPod(context, id, signal);
    return await openIn(options, pod);
  } catch (error) {
    throw faultOf(await explained(context, id, error, signal));
  }
}

/** A Pod that ended meanwhile answers with whatever error. */
async function explained(
  context: ClusterContext,
  id: InstanceId,
  error: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  if (isFailure(error, 'absent')) return notRunning(error);
  if (!isFailure(error, 'invalid', 'unavailable')) return error;
  if (/container not found|not running|container is in|cannot exec/i.test(error.message)) return notRunning(error);
  const pod = await ownPod(context, id, signal).catch(() => undefined);
  return pod === undefined || isRunning(pod) ? error : notRunning(error);
}

async function openIn(
  { context, id, request, signal, leaving, noInput = false }: CommandOptions,
  pod: Pod,
): Promise<OpenExec> {
  const { cluster } = context;
  const { command, env, terminal } = request;
  const sendsEnvironment = !noInput && terminal === null && Object.keys(env).length > 0;
  const exec = await cluster.exec(
    podName(id),
    {
      container: MAIN_CONTAINER,
      command: sendsEnvironment
        ? withEnvironmentInput(command, 'parent')
        : withProcessId(request, noInput ? 'shell' : 'parent'),
      stdin: !noInput,
      terminal,
      unlimited: true,
    },
    signal,
  );
  const channel = terminal === null ? exec.stderr : exec.stdout;
  let processId: number | null;
  try {
    processId = await raceAbort(startOf(exec, channel), signal);
  } catch (error) {
    exec.close();
    throw error;
  }
  if (sendsEnvironment && processId !== null) exec.stdin.write(environmentInput(env));
  exec.limitOutput();
  if (leaving !== undefined) {
    const unsubscribe = onAbort(leaving, () => exec.close());
    exec.exited.then(unsubscribe, unsubscribe);
  }
  return new Command(context, id, pod, exec, processId).open;
}

/** Null: the shell could not start, which the status explains. */
async function startOf(exec: PodExec, channel: Readable): Promise<number | null> {
  const processId = await readProcessId(channel);
  if (processId === null) await exec.exited.catch(throwUnstarted);
  return processId;
}

function throwUnstarted(error: unknown): never {
  if (isFailure(error, 'unavailable') && /resource temporarily unavailable|cannot fork|EAGAIN/i.test(error.message)) {
    const limit =
      'the instance has reached its limit of processes; end programs in an open terminal or notebook, or restart the instance';
    throw new EngineFault('no_capacity', limit, { retry: true, cause: error });
  }
  throw error;
}

class Command {
  readonly open: OpenExec;
  readonly #context: ClusterContext;
  readonly #id: InstanceId;
  readonly #uid: string | undefined;
  readonly #exec: PodExec;
  readonly #processId: number | null;
  #killed = false;
  #ended = false;

  constructor(context: ClusterContext, id: InstanceId, pod: Pod, exec: PodExec, processId: number | null) {
    this.#context = context;
    this.#id = id;
    this.#uid = pod.metadata?.uid;
    this.#exec = exec;
    this.#processId = processId;
    const exited = this.#exit();
    exited.catch(() => {});
    const { stdin, stdout, stderr, resize } = exec;
    this.open = { stdin, stdout, stderr, resize, exited, kill: (signal = 'KILL') => this.#kill(signal) };
  }

  async #exit(): Promise<number> {
    try {
      const exitCode = await this.#exec.exited;
      if (exitCode === KILLED_EXIT_CODE && !this.#killed && !(await this.#survived())) throw this.#instanceEnded();
      return exitCode;
    } catch (error) {
      if (error instanceof EngineFault) throw error;
      throw (await this.#survived()) ? faultOf(error) : this.#instanceEnded(error);
    } finally {
      this.#ended = true;
    }
  }

  #instanceEnded(cause?: unknown): EngineFault {
    return new EngineFault('not_found', 'the instance ended while the command ran', { retry: false, cause });
  }

  /** Asks inside: the state of a Pod is late by a second. */
  async #survived(): Promise<boolean> {
    const { cluster, stopping } = this.#context;
    for (let check = 0; check < CHECKS_AFTER_KILLED; check++) {
      const signal = AbortSignal.any([stopping, AbortSignal.timeout(KILL_MS)]);
      try {
        const pod = await ownPod(this.#context, this.#id, signal);
        if (pod?.metadata?.uid !== this.#uid || !isRunning(pod)) return false;
        const command = ['/bin/sh', '-c', `[ ! -e ${ENDED_MARK} ]`];
        const exec = await cluster.exec(
          podName(this.#id),
          { container: MAIN_CONTAINER, command, stdin: false },
          signal,
        );
        if ((await raceAbort(exec.exited, signal)) !== 0) return false;
      } catch (error) {
        // Without an answer nothing is known of the instance.
        return isFailure(error, 'away') || !(error instanceof Error);
      }
      await delay(CHECK_PAUSE_MS, undefined, { signal: stopping });
    }
    return true;
  }

  async #kill(signal: ProcessSignal): Promise<void> {
    if (this.#ended || this.#processId === null) return;
    if (signal === 'KILL') this.#killed = true;
    const { stopping } = this.#context;
    const deadline = AbortSignal.any([stopping, AbortSignal.timeout(KILL_MS)]);
    const request = { command: killCommand(signal, this.#processId), env: {}, terminal: null };
    try {
      const pod = await runningPod(this.#context, this.#id, deadline);
      if (pod.metadata?.uid !== this.#uid) return;
      const options = { context: this.#context, id: this.#id, request, signal: deadline, noInput: true };
      const { exitCode, stderr } = await collect(await openCommand(options));
      if (exitCode === 0 || this.#ended) return;
      throw new EngineFault('rejected', `the command could not be killed: ${stderr.trim()}`, { retry: true });
    } catch (error) {
      const fault = faultOf(error);
      if (fault.kind !== 'not_found' && !this.#ended) throw fault;
    }
  }
}

const OUTPUT_LIMIT_BYTES = 1024 * 1024;

/** Output up to a limit; the rest is discarded. */
export async function collect({
  stdout,
  stderr,
  exited,
}: OpenExec): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  const [output, errors] = await Promise.all([startOfText(stdout), startOfText(stderr)]);
  return { exitCode: await exited, stdout: output, stderr: errors };
}

async function startOfText(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  let remaining = OUTPUT_LIMIT_BYTES;
  for await (const chunk of stream) {
    const part = Buffer.from(chunk).subarray(0, remaining);
    remaining -= part.length;
    if (part.length > 0) parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
