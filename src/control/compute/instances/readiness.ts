/**
 * Decides when an instance is Running, how its scripts ended and how its notebook server is. The
 * start script reports them on the console (`start-reports.ts`).
 */
import { isDeepStrictEqual } from 'node:util';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { Instance, Observed } from '../../../domain/compute/instance.ts';
import { nextStatus } from '../../../domain/compute/instance-states.ts';
import { beginInitScript, endInitScript } from '../../../domain/compute/operation.ts';
import {
  afterReport,
  newNotebook,
  noNotebook,
  notebookMessage,
  type NotebookServer,
} from '../../../domain/compute/notebook-state.ts';
import { diagnosisFields, type Step } from '../../../domain/compute/plan.ts';
import { NOTEBOOK_PORT } from '../../../domain/access/port-access.ts';
import { acceptsConnection, answersSsh, type ProbeTarget } from '../inside/probes.ts';
import { parseConsole, parseExit, plainText, type ConsoleReport, type ScriptReport } from './start-reports.ts';
import {
  callDeadline,
  withInstance,
  writeInstance,
  writeObservation,
  type InstanceState,
  type ReconcileContext,
  type StepResult,
} from './reconcile-context.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { rootDiskFacts } from '../../kernel/ports.ts';

const FIRST_POLL_MS = 4;
/** Adds about a tenth to sshd's own start, for some thirty refused connections. */
const POLL_GROWTH = 1.1;
const LONGEST_POLL_MS = 500;
/** First poll interval as a share of the wait so far: spares slow instances. */
const POLL_SHARE = 1 / 60;
const SHORTEST_REST_MS = 20;
/** Afterwards reads the console too, in case the image has no sshd, and shows the wait. */
const PATIENCE_MS = 400;
/** Longer with sshd: observing costs the engine more than a refused connection. */
const SSHD_PATIENCE_MS = 2_000;
const CONSOLE_LINES = 200;
const INIT_POLL_MS = 1_000;
const INIT_LONGEST_POLL_MS = 30_000;
/** A start command may run as long as the instance. */
const START_LONGEST_POLL_MS = 5 * 60_000;
/** Polls until ssh or the notebook answers, the container ends, or patience is over. */
export async function checkReady(
  context: ReconcileContext,
  before: InstanceState,
  { show, startedAtMs }: Extract<Step, { do: 'checkReady' }>,
): Promise<StepResult> {
  const { deps } = context;
  const { observed } = before.instance;
  const isNew = observed.runStartedAtMs !== startedAtMs;
  const start = isNew ? withInstance(before, { observed: { ...observed, runStartedAtMs: startedAtMs } }) : before;
  const { instance } = start;
  const { sshFront, phase, status } = instance.observed;
  // The gateway's process answers for an ssh front, not the instance.
  if (instance.spec.runImageCommand) return markReady(context, await awaitSshFront(context, start), 'nothing');
  if (!sshFront && (await answersWithin(context, instance, PATIENCE_MS))) return markReady(context, start, 'ssh');
  const { services } = parseConsole(await readConsoleLines(context, instance));
  let state = start;
  // The console may be the previous start's: a container that ended meanwhile is not ready.
  if (services && !services.includes('ssh') && (await isRunning(context, instance))) {
    if (!sshFront) state = await awaitSshFront(context, state);
    if (!services.includes('notebook')) return markReady(context, state, 'nothing');
    if ((await acceptsConnection(probeTargetOf(context, instance), NOTEBOOK_PORT)) === true)
      return markReady(context, state, 'notebook');
  }
  if (instance !== state.written || phase !== show.phase || status !== show.status)
    state = await writeObservation(context, state, { observed: show });
  if (services?.includes('ssh') && (await answersWithin(context, instance, SSHD_PATIENCE_MS)))
    return markReady(context, state, 'ssh');
  const waitedMs = deps.time.now() - instance.requestedAtMs;
  return { state, next: Math.min(LONGEST_POLL_MS, Math.max(SHORTEST_REST_MS, waitedMs / 10)) };
}

async function awaitSshFront(context: ReconcileContext, state: InstanceState): Promise<InstanceState> {
  if (context.drivers.health.probe?.capabilities.joinNetwork !== true) return state;
  const requested = await writeObservation(context, state, { observed: { sshFront: true } });
  await answersWithin(context, requested.instance, context.deps.limits.sshFrontMs);
  return requested;
}

const probeTargetOf = ({ deps, drivers, signal }: ReconcileContext, { id }: Instance): ProbeTarget => ({
  engine: drivers.engine,
  id,
  time: deps.time,
  signal,
});

/** Polls sshd; returns early when the probe is inconclusive, as after the container ended. */
async function answersWithin(context: ReconcileContext, instance: Instance, patienceMs: number): Promise<boolean> {
  const { deps, signal } = context;
  const target = probeTargetOf(context, instance);
  const beganMs = deps.time.elapsed();
  const waitedMs = deps.time.now() - instance.requestedAtMs;
  for (
    let pollMs = Math.min(LONGEST_POLL_MS, Math.max(FIRST_POLL_MS, waitedMs * POLL_SHARE));
    deps.time.elapsed() - beganMs < patienceMs;
    pollMs = Math.min(LONGEST_POLL_MS, pollMs * POLL_GROWTH)
  ) {
    const answer = await answersSsh(target);
    if (answer !== false) return answer === true;
    await deps.time.sleep(pollMs, signal);
  }
  return false;
}

async function isRunning(context: ReconcileContext, { id }: Instance): Promise<boolean> {
  const observation = (await context.drivers.engine.observe([id], callDeadline(context))).get(id);
  return observation?.kind === 'present' && observation.running;
}

/** Stored in place of an exit code for a script that a stop ended. */
const CUT_SHORT = -1;

const scriptEnded = (script: string, exit: number, failure: string): string =>
  exit === CUT_SHORT
    ? `a stop interrupted the ${script}, which does not run again`
    : `the ${script} exited with code ${exit}${failure === '' ? '' : `; ${failure}`}`;

type Reported = Pick<Instance, 'spec' | 'initExit'> & {
  observed: Pick<Observed, 'initFailure' | 'startExit' | 'startFailure' | 'imageNote' | 'notebook'>;
};

function messageOf({ spec, initExit, observed }: Reported): string {
  const { initFailure, startExit, startFailure, imageNote } = observed;
  const parts = [imageNote];
  const awaitsInit = spec.initScript.trim() !== '' && initExit === null;
  if (awaitsInit) parts.push('the init script is running');
  else if (initExit !== null) parts.push(scriptEnded('init script', initExit, initFailure));
  if (spec.startCommand.trim() !== '') {
    if (startExit !== null) parts.push(scriptEnded('start command', startExit, startFailure));
    else if (!awaitsInit) parts.push('the start command is running');
  }
  return [...parts, notebookMessage(observed.notebook)].filter((part) => part !== '').join('; ');
}

async function markReady(
  context: ReconcileContext,
  state: InstanceState,
  answersBy: Observed['answersBy'],
): Promise<StepResult> {
  const { instance } = state;
  const { spec, operation } = instance;
  // The init script runs once for each root disk.
  const { keepsRootDisk } = rootDiskFacts(context.drivers);
  const isFirst = !keepsRootDisk;
  const initExit = isFirst ? null : instance.initExit;
  const notebook = answersBy === 'nothing' ? noNotebook : newNotebook;
  const run = { notebook, startExit: null, startFailure: '', ...(isFirst ? { initFailure: '' } : {}) };
  const message = messageOf({ spec, initExit, observed: { ...instance.observed, ...run } });
  const nowMs = context.deps.time.now();
  const observed = {
    status: nextStatus(instance.observed.status, 'ready'),
    phase: 'Ready',
    healthy: true,
    stoppedAtMs: 0,
    runningSinceMs: nowMs,
    answersBy,
    progress: null,
    ...diagnosisFields('', ''),
    ...run,
    message,
  } as const;
  const starts = initExit === null && spec.initScript.trim() !== '';
  const started = starts ? withInstance(state, { operation: beginInitScript(operation, nowMs) }) : state;
  const change = { observed, initExit, rootDisk: keepsRootDisk ? ('kept' as const) : undefined };
  return { state: await writeObservation(context, started, change), next: 'again' };
}

/** Polls notebook server, init script and start command, less often the longer they take. */
export async function checkReports(context: ReconcileContext, before: InstanceState): Promise<StepResult> {
  const report = parseConsole(await readConsoleLines(context, before.instance));
  const state = await writeNotebook(context, before, report.notebook);
  return checkScripts(context, state, report);
}

async function checkScripts(
  context: ReconcileContext,
  state: InstanceState,
  report: ConsoleReport,
): Promise<StepResult> {
  const { deps } = context;
  const { instance } = state;
  const { spec, observed } = instance;
  const nowMs = deps.time.now();
  if (instance.initExit === null && spec.initScript.trim() !== '') {
    const ended = await endOf(context, instance, 'init', report.init);
    if (ended !== null) {
      const next = withInstance(state, { operation: endInitScript(instance.operation, nowMs) });
      const initFailure = ended.failure;
      const message = messageOf({ ...instance, initExit: ended.exit, observed: { ...observed, initFailure } });
      const change = { initExit: ended.exit, observed: { initFailure, message } };
      return { state: await writeObservation(context, next, change), next: 'again' };
    }
  } else if (spec.startCommand.trim() !== '' && observed.startExit === null) {
    const ended = await endOf(context, instance, 'start', report.start);
    if (ended !== null) {
      const change = { startExit: ended.exit, startFailure: ended.failure };
      const message = messageOf({ ...instance, observed: { ...observed, ...change } });
      return { state: await writeObservation(context, state, { observed: { ...change, message } }), next: 'again' };
    }
  }
  const { notebook } = observed;
  const endedMs = notebook !== null && notebook.endedAtMs < nowMs ? notebook.endedAtMs : 0;
  const runningMs = nowMs - Math.max(instance.requestedAtMs, endedMs);
  const isLong = instance.initExit !== null && notebook?.state !== 'starting';
  const longestMs = isLong ? START_LONGEST_POLL_MS : INIT_LONGEST_POLL_MS;
  return { state, next: Math.min(longestMs, Math.max(INIT_POLL_MS, runningMs / 10)) };
}

/** Tells the owner of an end and of a server that does not start. */
async function writeNotebook(
  context: ReconcileContext,
  state: InstanceState,
  reported: NotebookServer | null,
): Promise<InstanceState> {
  const { instance } = state;
  const { id, ownerId, observed } = instance;
  const isAwaited = reported === null && observed.notebook?.state === 'starting';
  const found = isAwaited ? await notebookFromFile(context, instance) : reported;
  if (found === null) return state;
  const text = found.text.replaceAll(context.notebookToken(), "[the notebook's secret]");
  const { store, variables, time } = context.deps;
  const notebook = { ...found, text: text === '' ? '' : await variables.redact(store.read, instance, text) };
  const before = observed.notebook;
  if (isDeepStrictEqual(notebook, before)) return state;
  const after = { ...observed, notebook };
  const next = { ...instance, observed: { ...after, message: messageOf({ ...instance, observed: after }) } };
  const { endedAtMs, exit, endedKernels } = notebook;
  const ended = endedAtMs > (before?.endedAtMs ?? 0);
  const failed = notebook.state === 'failed' && before?.state !== 'failed';
  if (!ended && !failed) return writeInstance(context, state, next);
  const kind = failed ? 'instance.notebookFailed' : 'instance.notebookEnded';
  const data = { exit, text: notebook.text, ...(failed ? {} : { endedAtUnixMs: endedAtMs, kernels: endedKernels }) };
  const event = { accountId: ownerId, atMs: time.now(), kind, subjectId: id, data };
  return writeInstance(context, state, next, { alongside: async (tx) => void (await appendEvent(tx, event)) });
}

async function notebookFromFile(context: ReconcileContext, { id }: Instance): Promise<NotebookServer | null> {
  const text = await readInside(context, id, ['notebook.state']);
  return text === null ? null : afterReport(null, plainText(text.trim()));
}

/** How the script ended, with secrets hidden; null while it runs. */
async function endOf(
  context: ReconcileContext,
  instance: Instance,
  script: 'init' | 'start',
  reported: ScriptReport,
): Promise<{ exit: number; failure: string } | null> {
  if (reported === 'lost') return { exit: CUT_SHORT, failure: '' };
  const isOver = reported !== null && reported !== 'running';
  const ended = isOver ? reported : await exitFromFile(context, instance, script);
  if (ended === null || ended.failure === '') return ended;
  const { store, variables } = context.deps;
  return { ...ended, failure: await variables.redact(store.read, instance, ended.failure) };
}

/** Reads the start script's files: a talkative instance pushes the line off the console. */
async function exitFromFile(
  context: ReconcileContext,
  { id }: Instance,
  script: 'init' | 'start',
): Promise<{ exit: number; failure: string } | null> {
  const text = await readInside(context, id, [`${script}.exit`, `${script}.failed`]);
  const ended = text === null ? null : parseExit(text);
  return typeof ended === 'object' ? ended : null;
}

async function readInside(
  context: ReconcileContext,
  id: Instance['id'],
  names: readonly string[],
): Promise<string | null> {
  const { engine } = context.drivers;
  try {
    const command = ['cat', ...names.map((name) => `/var/log/berth/${name}`)];
    const { exitCode, stdout } = await engine.exec(id, command, callDeadline(context));
    return exitCode === 0 ? stdout : null;
  } catch (error) {
    if (error instanceof EngineFault) return null;
    throw error;
  }
}

async function readConsoleLines(context: ReconcileContext, { id }: Instance): Promise<string[]> {
  try {
    const lines = await context.drivers.engine.logs(id, 'console', { tail: CONSOLE_LINES }, callDeadline(context));
    return await Array.fromAsync(lines, ({ text }) => text);
  } catch (error) {
    if (error instanceof EngineFault) return [];
    throw error;
  }
}
