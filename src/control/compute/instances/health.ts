/**
 * Measures `healthy`: asks ssh or the notebook of each Running instance in rounds of half a minute
 * or longer. After two silent checks in a row the instance is unhealthy. Its reconciler writes the
 * result. An unreachable engine changes nothing. Notebook servers are checked by port, and in each
 * fourth round by the console: a server that ended soon listens again.
 */
import { lostGpuOf, memoryKillsOf, type Instance } from '../../../domain/compute/instance.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { NOTEBOOK_PORT } from '../../../domain/access/port-access.ts';
import { instanceFromRow, makeDue } from '../../../store/tables/instances.ts';
import { dropWatches, saveWatches, takeOverWatches, type Watch } from '../../../store/tables/watches.ts';
import { runningRowsAmong, idsWithNodePorts } from '../../../store/tables/instance-queries.ts';
import { parseConsole } from './start-reports.ts';
import { acceptsConnection, answersSsh } from '../inside/probes.ts';
import type { Sampler } from '../inside/metrics/sampler.ts';
import type { TaskDeps } from '../../kernel/ports.ts';

const AT_ONCE = 256;
const ROUND_MS = 30_000;
const SILENT_TIMES = 2;
const CONSOLE_ROUNDS = 4;
const CONSOLE_LINES = 50;
const CONSOLE_DEADLINE_MS = 10_000;
const TAKEN_OVER_MS = 90_000;

export interface HealthDeps extends TaskDeps {
  sampler: Pick<Sampler, 'latestOf' | 'lackingGpu' | 'takeKilled'>;
}

export interface HealthChecks {
  takeOver(): Promise<void>;
  /** Whether the software of the run answers; undefined: no change. */
  answers(instance: Pick<Instance, 'id' | 'observed'>): boolean | undefined;
  /** Time of the run's last sample, if it lacks a GPU; null: it has all; undefined: unknown. */
  gpuLostAtMs(instance: Pick<Instance, 'id' | 'observed'>): number | null | undefined;
  /** Killed processes of the run by its last sample; undefined: unknown. */
  memoryKills(instance: Pick<Instance, 'id' | 'observed'>): { count: number; atMs: number } | undefined;
  /** Whether the notebook server differs from the row. */
  notebookDiffers(instance: Pick<Instance, 'id' | 'observed'>): boolean;
  /** Checks the next instances of the round and silent ones. The caller sets the interval. */
  check(): Promise<void>;
}

interface Silence {
  run: string;
  /** Silent checks in a row; 0: it answers again. */
  times: number;
}

/** Undefined: too few checks. */
const answersOf = ({ times }: Silence): boolean | undefined =>
  times === 0 ? true : times < SILENT_TIMES ? undefined : false;

const rowOf = ({ id, spec, observed }: Instance, nowMs: number): Watch => ({
  kind: 'silent',
  subjectId: id,
  regionId: spec.regionId,
  sinceMs: nowMs,
  run: runOf({ observed }),
  usedAtMs: null,
  willStopAtMs: null,
});

const runOf = ({ observed }: Pick<Instance, 'observed'>): string => String(observed.runningSinceMs);

/** Readings of the latest samples of the current run. */
const readingsOf = (sampler: HealthDeps['sampler']): Pick<HealthChecks, 'gpuLostAtMs' | 'memoryKills'> => ({
  gpuLostAtMs({ id, observed }) {
    const latest = sampler.latestOf(id);
    if (latest?.usage.startedAtMs !== observed.runStartedAtMs || !latest.usage.gpus) return undefined;
    return latest.usage.gpus.some(({ isTaken }) => isTaken === true) ? latest.atMs : null;
  },
  memoryKills({ id, observed }) {
    const latest = sampler.latestOf(id);
    const count = latest?.usage.startedAtMs === observed.runStartedAtMs ? latest.usage.memoryKills : undefined;
    return latest && count !== undefined ? { count, atMs: latest.usage.atMs } : undefined;
  },
});

export function makeHealthChecks(deps: HealthDeps): HealthChecks {
  const { store, regions, time, changes, log, sampler, stopping } = deps;
  const { gpuLostAtMs, memoryKills } = readingsOf(sampler);
  /** A row each: silent instances, and those not yet marked as answering again. */
  const silent = new Map<string, Silence>();
  /** Runs whose notebook server differs from the row, by instance. */
  const differing = new Map<string, string>();
  let rounds = 0;
  let cursor = '';
  let roundFromMs = -Infinity;

  const ask = async (one: Instance): Promise<{ answer: boolean | null; differs: boolean }> => {
    const { id, spec, observed } = one;
    const { engine, health } = regions.of(spec.regionId);
    if (!health.answers || health.probe?.capabilities.dial === false || observed.answersBy === 'nothing')
      return { answer: null, differs: false };
    const inside = { engine, id, time, signal: stopping };
    const ssh = await answersSsh(inside);
    const isWatched = observed.notebook?.state === 'ready' || observed.notebook?.state === 'failed';
    const listens = ssh === false || (ssh && isWatched) ? await acceptsConnection(inside, NOTEBOOK_PORT) : null;
    const differs = isWatched && ssh !== null && (await notebookDiffers(one, listens));
    return { answer: ssh === false ? listens : ssh, differs };
  };

  const notebookDiffers = async ({ id, spec, observed }: Instance, listens: boolean | null): Promise<boolean> => {
    if (listens === null) return false;
    if (listens !== (observed.notebook?.state === 'ready')) return true;
    if (rounds % CONSOLE_ROUNDS !== 0) return false;
    const { engine } = regions.of(spec.regionId);
    try {
      const signal = AbortSignal.any([stopping, time.deadline(CONSOLE_DEADLINE_MS)]);
      const lines = await engine.logs(id, 'console', { tail: CONSOLE_LINES }, signal);
      const { notebook } = parseConsole(await Array.fromAsync(lines, ({ text }) => text));
      return notebook !== null && notebook.endedAtMs !== observed.notebook?.endedAtMs;
    } catch (error) {
      if (error instanceof EngineFault) return false;
      throw error;
    }
  };

  const next = async (): Promise<Set<string>> => {
    const again = new Set([...silent.keys(), ...sampler.lackingGpu(), ...sampler.takeKilled()]);
    if (cursor === '' && time.elapsed() - roundFromMs < ROUND_MS) return again;
    if (cursor === '') roundFromMs = time.elapsed();
    if (cursor === '') rounds += 1;
    const fresh = await idsWithNodePorts(store.read, cursor, AT_ONCE);
    cursor = fresh.length === AT_ONCE ? (fresh.at(-1) ?? '') : '';
    return new Set([...again, ...fresh]);
  };

  return {
    async takeOver() {
      const recent = { nowMs: time.now(), withinMs: TAKEN_OVER_MS };
      for (const { subjectId, run } of await store.write((tx) => takeOverWatches(tx, 'silent', recent)))
        silent.set(subjectId, { run, times: 1 });
    },
    answers(instance) {
      const silence = silent.get(instance.id);
      return silence?.run === runOf(instance) ? answersOf(silence) : undefined;
    },
    gpuLostAtMs,
    memoryKills,
    notebookDiffers: (instance) => differing.get(instance.id) === runOf(instance),
    async check() {
      const rows = await runningRowsAmong(store.read, [...(await next())]);
      const asked = rows.map(instanceFromRow);
      const there = new Set<string>(asked.map(({ id }) => id));
      const over = [...silent.keys()].filter((id) => !there.has(id));
      const noted = new Map<string, Silence>();
      const began: Watch[] = [];
      const answers = await Promise.all(asked.map(async (one) => ({ one, ...(await ask(one)) })));
      const changed: string[] = [];
      for (const id of differing.keys()) if (!there.has(id)) differing.delete(id);
      for (const { one, answer, differs } of answers) {
        if (differs) changed.push(one.id);
        if (differs) differing.set(one.id, runOf(one));
        else differing.delete(one.id);
        const lostAtMs = gpuLostAtMs(one);
        if (lostAtMs !== undefined && (lostAtMs === null) === (lostGpuOf(one) !== null)) {
          changed.push(one.id);
          if (lostAtMs !== null)
            log.warn({ id: one.id }, 'the host has taken the GPU of an instance; a restart gives it back');
        }
        if ((memoryKills(one)?.count ?? 0) > (memoryKillsOf(one)?.count ?? 0)) changed.push(one.id);
        if (answer === null) continue;
        const { healthy } = one.observed;
        const run = runOf(one);
        const before = silent.get(one.id);
        const times = answer ? 0 : 1 + (before?.run === run ? before.times : 0);
        if (answer && healthy) {
          if (before) over.push(one.id);
          continue;
        }
        const silence = { run, times };
        const now = answersOf(silence);
        noted.set(one.id, silence);
        if (before?.run !== run) began.push(rowOf(one, time.now()));
        if (now !== undefined && now !== healthy) changed.push(one.id);
      }
      if (changed.length + began.length + over.length > 0)
        await store.write(async (tx) => {
          await saveWatches(tx, began);
          await dropWatches(tx, 'silent', over);
          await makeDue(tx, changed, time.now());
        });
      for (const id of over) silent.delete(id);
      for (const [id, silence] of noted) silent.set(id, silence);
      if (changed.length > 0) changes.publish({ subject: 'instance', isDue: true });
    },
  };
}
