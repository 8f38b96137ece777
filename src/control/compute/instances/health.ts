/**
 * Measures `healthy`: asks ssh or the notebook of each Running instance in rounds of half a minute
 * or longer. After two silent checks in a row the instance is unhealthy. Its reconciler writes the
 * result. An unreachable engine changes nothing.
 */
import { makeBoundedMap } from '../../../async/bounded-map.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { lostGpuOf, type Instance } from '../../../domain/compute/instance.ts';
import { NOTEBOOK_PORT } from '../../../domain/access/port-access.ts';
import { instanceFromRow, makeDue } from '../../../store/tables/instances.ts';
import { runningRowsAmong, idsWithNodePorts } from '../../../store/tables/instance-queries.ts';
import { acceptsConnection, answersSsh } from '../inside/probes.ts';
import type { Sampler } from '../inside/metrics/sampler.ts';
import type { TaskDeps } from '../../kernel/ports.ts';

const AT_ONCE = 256;
const ROUND_MS = 30_000;
const SILENT_TIMES = 2;
const MAX_ANSWERS = 10_000;

export interface HealthDeps extends TaskDeps {
  sampler: Pick<Sampler, 'latestOf' | 'lackingGpu'>;
}

export interface HealthChecks {
  /** Returns and forgets the last result: whether the instance's software answers. */
  takeAnswer(id: InstanceId): boolean | undefined;
  /** Time of the run's last sample, if it lacks a GPU; null: it has all; undefined: unknown. */
  gpuLostAtMs(instance: Pick<Instance, 'id' | 'observed'>): number | null | undefined;
  /** Checks the next instances of the round and silent ones. The caller sets the interval. */
  check(): Promise<void>;
}

export function makeHealthChecks(deps: HealthDeps): HealthChecks {
  const { store, regions, time, changes, log, sampler, stopping } = deps;
  /** Silent checks in a row. */
  const silent = new Map<string, number>();
  /** Bounded: nobody takes the answer of an instance that ends first. */
  const answered = makeBoundedMap<boolean>({ maxEntries: MAX_ANSWERS });
  let cursor = '';
  let roundFromMs = -Infinity;

  const ask = async ({ id, spec, observed }: Instance): Promise<boolean | null> => {
    const { engine, health } = regions.of(spec.regionId);
    if (!health.answers || health.probe?.capabilities.dial === false || observed.answersBy === 'nothing') return null;
    const inside = { engine, id, time, signal: stopping };
    const ssh = await answersSsh(inside);
    return ssh === false ? acceptsConnection(inside, NOTEBOOK_PORT) : ssh;
  };

  const gpuLostAtMs: HealthChecks['gpuLostAtMs'] = ({ id, observed }) => {
    const latest = sampler.latestOf(id);
    if (latest?.usage.startedAtMs !== observed.runStartedAtMs || !latest.usage.gpus) return undefined;
    return latest.usage.gpus.some(({ isTaken }) => isTaken === true) ? latest.atMs : null;
  };

  const next = async (): Promise<Set<string>> => {
    const again = new Set([...silent.keys(), ...sampler.lackingGpu()]);
    if (cursor === '' && time.elapsed() - roundFromMs < ROUND_MS) return again;
    if (cursor === '') roundFromMs = time.elapsed();
    const fresh = await idsWithNodePorts(store.read, cursor, AT_ONCE);
    cursor = fresh.length === AT_ONCE ? (fresh.at(-1) ?? '') : '';
    return new Set([...again, ...fresh]);
  };

  return {
    takeAnswer(id) {
      const answer = answered.get(id);
      answered.delete(id);
      return answer;
    },
    gpuLostAtMs,
    async check() {
      const rows = await runningRowsAmong(store.read, [...(await next())]);
      const asked = rows.map(instanceFromRow);
      const there = new Set<string>(asked.map(({ id }) => id));
      for (const id of silent.keys()) if (!there.has(id)) silent.delete(id);
      const answers = await Promise.all(asked.map(async (one) => ({ one, answer: await ask(one) })));
      const changed: string[] = [];
      for (const { one, answer } of answers) {
        const lostAtMs = gpuLostAtMs(one);
        if (lostAtMs !== undefined && (lostAtMs === null) === (lostGpuOf(one) !== null)) {
          changed.push(one.id);
          if (lostAtMs !== null)
            log.warn({ id: one.id }, 'the host has taken the GPU of an instance; a restart gives it back');
        }
        if (answer === null) continue;
        const silentTimes = answer ? 0 : (silent.get(one.id) ?? 0) + 1;
        if (answer) silent.delete(one.id);
        else silent.set(one.id, silentTimes);
        const { healthy } = one.observed;
        if (answer === healthy || (!answer && silentTimes < SILENT_TIMES)) continue;
        answered.set(one.id, answer);
        changed.push(one.id);
      }
      if (changed.length === 0) return;
      await store.write((tx) => makeDue(tx, changed, time.now()));
      changes.publish({ subject: 'instance', isDue: true });
    },
  };
}
