/**
 * When an instance counts as Running, and how its init script fares. The start script (`images/start.sh`) says on the console what
 * it starts and how the init script ended; its lines are the instance's own word and decide about nothing but the instance itself.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import type { Observed } from '../../domain/instance.ts';
import { nextStatus } from '../../domain/instance-states.ts';
import { beginInitScript, endInitScript } from '../../domain/operation.ts';
import { diagnosisFields } from '../../domain/plan.ts';
import { NOTEBOOK_PORT } from '../../domain/ports.ts';
import { acceptsConnection, answersSsh, type ProbeTarget } from '../inside/probes.ts';
import { writeObservation, callDeadline, type ReconcileContext } from './reconcile-context.ts';

const FIRST_POLL_MS = 4;
/** The wait that comes on top of sshd's own is about a tenth of it, for some thirty connections that are refused. */
const POLL_GROWTH = 1.1;
const LONGEST_POLL_MS = 500;
/** Of the wait so far: one that is slow is not asked thirty times a second for minutes. */
const POLL_SHARE = 60;
const SHORTEST_REST_MS = 20;
/** From here on the console is read too, in case the image has no sshd; and the wait is written down for the owner to see. */
const PATIENCE_MS = 400;
/** Of one that says that it has sshd: looks and logs cost the engine more than a connection that is refused. */
const MORE_PATIENCE_MS = 2_000;
const CONSOLE_LINES = 200;
const INIT_POLL_MS = 1_000;
const INIT_LONGEST_POLL_MS = 30_000;

interface Console {
  services: string[] | null;
  initExit: number | 'running' | 'lost' | null;
}

/** What the start script said, of the last start. Pure. */
export function parseConsole(lines: readonly string[]): Console {
  const said: Console = { services: null, initExit: null };
  for (const line of lines) {
    const words = line.trim().split(/\s+/);
    if (words[0] !== 'berth:') continue;
    if (words[1] === 'services') said.services = words.slice(2).filter((word) => word !== 'none');
    if (words[1] === 'init' && words[2] === 'started') said.initExit = 'running';
    if (words[1] === 'init' && words[2] === 'lost') said.initExit = 'lost';
    if (words[1] === 'init' && words[2] === 'exit' && /^\d{1,3}$/.test(words[3] ?? ''))
      said.initExit = Number(words[3]);
  }
  return said;
}

/** Polls until ssh answers (or what the image has instead), the container ends, or a while is over. */
export async function checkReady(work: ReconcileContext, show: Partial<Observed>): Promise<'again' | number> {
  const { deps, instance } = work;
  // What answers then is the gateway's process, and says nothing of the instance.
  if (!instance.observed.sshFront && (await answersWithin(work, PATIENCE_MS))) return markReady(work, 'ssh');
  const lines = await readConsoleLines(work);
  const { services } = parseConsole(lines);
  // Until this start has spoken the console is that of the one before: what has ended meanwhile is not ready.
  if (services && !services.includes('ssh') && (await runsNow(work))) {
    if (!instance.observed.sshFront) await awaitSshFront(work);
    if (!services.includes('notebook')) return markReady(work, 'nothing');
    if ((await acceptsConnection(probeTargetOf(work), NOTEBOOK_PORT)) === true) return markReady(work, 'notebook');
  }
  if (instance !== work.written || instance.observed.phase !== show.phase || instance.observed.status !== show.status)
    await writeObservation(work, { observed: show });
  if (services?.includes('ssh') && (await answersWithin(work, MORE_PATIENCE_MS))) return markReady(work, 'ssh');
  // A tenth of the wait so far: software that is slow to come up is not made slower by being asked too seldom.
  return Math.min(LONGEST_POLL_MS, Math.max(SHORTEST_REST_MS, (deps.now() - instance.requestedAtMs) / 10));
}

/** Has ssh served by the gateway's process, and gives it the time to come. */
async function awaitSshFront(work: ReconcileContext): Promise<void> {
  if (work.drivers.health.probe?.capabilities.joinNetwork !== true) return;
  await writeObservation(work, { observed: { sshFront: true } });
  await answersWithin(work, work.deps.limits.sshFrontMs);
}

const probeTargetOf = ({ deps, drivers, instance, held }: ReconcileContext): ProbeTarget => ({
  engine: drivers.engine,
  id: instance.id,
  time: deps.time,
  signal: held.signal,
});

/** Whether sshd answers in that time; not waited for once that can't be told, as when the container has ended. */
async function answersWithin(work: ReconcileContext, patienceMs: number): Promise<boolean> {
  const { deps, instance, held } = work;
  const inside = probeTargetOf(work);
  const beganMs = deps.now();
  const waitedMs = beganMs - instance.requestedAtMs;
  for (
    let pollMs = Math.min(LONGEST_POLL_MS, Math.max(FIRST_POLL_MS, waitedMs / POLL_SHARE));
    deps.now() - beganMs < patienceMs;
    pollMs = Math.min(LONGEST_POLL_MS, pollMs * POLL_GROWTH)
  ) {
    const answer = await answersSsh(inside);
    if (answer !== false) return answer === true;
    await deps.time.sleep(pollMs, held.signal);
  }
  return false;
}

async function runsNow(work: ReconcileContext): Promise<boolean> {
  const { drivers, instance } = work;
  const seen = (await drivers.engine.observe([instance.id], callDeadline(work))).get(instance.id);
  return seen?.kind === 'present' && seen.running;
}

/** Kept for the exit code of a script that was stopped before it had one. */
const CUT_SHORT = -1;

const initEnded = (initExit: number): string =>
  initExit === CUT_SHORT
    ? 'the init script was cut short by a stop and is not run again'
    : `the init script ended with exit code ${initExit}`;

async function markReady(work: ReconcileContext, answersBy: Observed['answersBy']): Promise<'again'> {
  const { spec, initExit } = work.instance;
  const message =
    spec.initScript.trim() === '' ? '' : initExit === null ? 'the init script is running' : initEnded(initExit);
  const nowMs = work.deps.now();
  const observed = {
    status: nextStatus(work.instance.observed.status, 'ready'),
    phase: 'Ready',
    healthy: true,
    stoppedAtMs: 0,
    runningSinceMs: nowMs,
    answersBy,
    progress: null,
    ...diagnosisFields('', ''),
  } as const;
  if (initExit === null && spec.initScript.trim() !== '')
    work.instance = { ...work.instance, operation: beginInitScript(work.instance.operation, nowMs) };
  await writeObservation(work, { observed: { ...observed, message } });
  return 'again';
}

/** Looks how the init script fares; less often the longer it runs. */
export async function checkInit(work: ReconcileContext): Promise<'again' | number> {
  const { deps, instance } = work;
  const lines = await readConsoleLines(work);
  const said = parseConsole(lines).initExit;
  const initExit = said === null || said === 'running' ? await exitCodeFromFile(work) : said;
  if (initExit !== null) {
    const exit = initExit === 'lost' ? CUT_SHORT : initExit;
    work.instance = { ...instance, operation: endInitScript(instance.operation, deps.now()) };
    await writeObservation(work, { initExit: exit, observed: { message: initEnded(exit) } });
    return 'again';
  }
  const runningMs = deps.now() - instance.requestedAtMs;
  return Math.min(INIT_LONGEST_POLL_MS, Math.max(INIT_POLL_MS, runningMs / 10));
}

/** The exit code from the file where the start script keeps it: a talkative instance pushes the line off the console. */
async function exitCodeFromFile(work: ReconcileContext): Promise<number | null> {
  const { drivers, instance } = work;
  try {
    const { exitCode, stdout } = await drivers.engine.exec(
      instance.id,
      ['cat', '/var/log/berth/init.exit'],
      callDeadline(work),
    );
    return exitCode === 0 && /^\d{1,3}\s*$/.test(stdout) ? Number(stdout) : null;
  } catch (error) {
    if (error instanceof EngineFault) return null;
    throw error;
  }
}

async function readConsoleLines(work: ReconcileContext): Promise<string[]> {
  try {
    const lines = await work.drivers.engine.logs(
      work.instance.id,
      'console',
      { tail: CONSOLE_LINES },
      callDeadline(work),
    );
    return await Array.fromAsync(lines, ({ text }) => text);
  } catch (error) {
    if (error instanceof EngineFault) return [];
    throw error;
  }
}
