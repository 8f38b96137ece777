/** Cost and load of many instances over the last day, for tables that show a page at once. */
import { toDollars } from '../../../../domain/regions/catalog.ts';
import { HOUR_MS } from '../../../../domain/kernel/durations.ts';
import { startOfStep } from '../../../../domain/compute/metrics.ts';
import { bucketsOf } from '../../../../domain/money/usage-buckets.ts';
import { chargesSoFar, purchasesSoFar } from '../../../../store/tables/report-rows.ts';
import { ownedSpecs } from '../../../../store/tables/instance-queries.ts';
import type { Store } from '../../../../store/store.ts';
import { makeDayLoads } from './day-loads.ts';
import type { Sampler } from './sampler.ts';
import type { Caller, Time } from '../../../kernel/ports.ts';
import { partsOf, report, timeZoneOf } from '../../../money/ports.ts';

/** 96 steps a day; an hour has whole ones. */
export const FIGURES_STEP_MS = HOUR_MS / 4;
const STEPS = 96;

/** Costs in dollars. */
export interface InstanceFigures {
  instanceId: string;
  costToday: number;
  costSoFar: number;
  fromUnixMs: number;
  stepSeconds: number;
  cpuPercent: (number | null)[];
  /** Mean over the GPUs of the type; empty without. */
  gpuPercent: (number | null)[];
}

export interface Figures {
  /** In the order of the ids. Omits instances that are not the caller's. */
  read(caller: Caller, ids: readonly string[]): Promise<InstanceFigures[]>;
}

interface FiguresDeps {
  store: Pick<Store, 'read' | 'kind'>;
  time: Pick<Time, 'now' | 'after'>;
  sampler: Pick<Sampler, 'memoryOf'>;
}

export function makeFigures(deps: FiguresDeps): Figures {
  const { store, time } = deps;
  const db = store.read;
  const loadsOf = makeDayLoads(deps);

  async function costsToday(accountId: string, regions: ReadonlyMap<string, string[]>): Promise<Map<string, number>> {
    const nowMs = time.now();
    const costs = new Map<string, number>();
    for (const [regionId, subjectIds] of regions) {
      const timeZone = await timeZoneOf(db, regionId);
      const [today] = bucketsOf({ fromMs: nowMs, untilMs: nowMs + 1 }, { by: 'day', timeZone, limit: 1 });
      if (!today) continue;
      for (const line of await report(deps, accountId, [today], { by: ['subjectId'], subjectIds }))
        costs.set(line.subjectId, (costs.get(line.subjectId) ?? 0) + line.amountMicros);
    }
    return costs;
  }

  return {
    async read({ accountId }, asked) {
      const rows = await ownedSpecs(db, accountId, asked);
      if (rows.length === 0) return [];
      const ids = rows.map(({ id }) => id);
      const regions = Map.groupBy(rows, ({ regionId }) => regionId);
      const today = await costsToday(
        accountId,
        new Map([...regions].map(([region, all]) => [region, all.map(({ id }) => id)])),
      );
      const soFar = await costsSoFar(deps, ids);
      const fromMs = startOfStep(time.now(), FIGURES_STEP_MS) - (STEPS - 1) * FIGURES_STEP_MS;
      const loads = await loadsOf(ids, { fromMs, stepMs: FIGURES_STEP_MS, count: STEPS });
      const byId = new Map(rows.map((row) => [row.id, row]));
      return [...new Set(asked)].flatMap((instanceId) => {
        const row = byId.get(instanceId);
        if (!row) return [];
        const limitMilli = row.spec.type.cpuCores * 1_000;
        const gpus = row.spec.type.gpuCount;
        const steps = loads.get(instanceId) ?? [];
        return [
          {
            instanceId,
            costToday: toDollars(today.get(instanceId) ?? 0),
            costSoFar: toDollars(soFar.get(instanceId) ?? 0),
            fromUnixMs: fromMs,
            stepSeconds: FIGURES_STEP_MS / 1_000,
            cpuPercent: steps.map((step) => (step.cpuMilli === null ? null : percent(step.cpuMilli, limitMilli))),
            gpuPercent: gpus === 0 ? [] : steps.map((step) => step.gpuPercent),
          },
        ];
      });
    },
  };
}

/** Micro-dollars by id, since the launch. */
export async function costsSoFar(
  deps: Pick<FiguresDeps, 'store'>,
  subjectIds: readonly string[],
): Promise<Map<string, number>> {
  const db = deps.store.read;
  const costs = new Map<string, number>();
  const add = (id: string, micros: number) => costs.set(id, (costs.get(id) ?? 0) + micros);
  for (const part of await partsOf(deps, { by: [], subjectIds })) {
    for (const { subjectId, micros } of await chargesSoFar(db, part)) add(subjectId, micros);
  }
  for (const { subjectId, micros } of await purchasesSoFar(db, subjectIds)) add(subjectId, micros);
  return costs;
}

const percent = (value: number, limit: number): number => Math.round((value / limit) * 1_000) / 10;
