/** Figures of the rows in view, asked for together. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { Sparkline } from '../../parts/sparkline.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from './allowed-acts.ts';

type Figures = Awaited<ReturnType<typeof api.instanceFigures>>['figures'][number];

/** Time in which rows that come into view join one request. */
const GATHER_MS = 100;
const MOST_IDS = 100;
/** Figures change without events. */
const FRESH_MS = 60_000;

const asked = new Map<string, PromiseWithResolvers<Figures | null>>();
let timer: number | undefined;

async function ask(): Promise<void> {
  timer = undefined;
  const batch = [...asked].slice(0, MOST_IDS);
  for (const [id] of batch) asked.delete(id);
  if (asked.size > 0) timer = window.setTimeout(() => void ask(), 0);
  try {
    const { figures } = await api.instanceFigures({ instanceIds: batch.map(([id]) => id) });
    const byId = new Map(figures.map((one) => [one.instanceId, one]));
    for (const [id, { resolve }] of batch) resolve(byId.get(id) ?? null);
  } catch (error) {
    for (const [, { reject }] of batch) reject(error);
  }
}

function figuresOf(id: string): Promise<Figures | null> {
  const known = asked.get(id);
  if (known) return known.promise;
  const made = Promise.withResolvers<Figures | null>();
  asked.set(id, made);
  timer ??= window.setTimeout(() => void ask(), GATHER_MS);
  return made.promise;
}

const figuresQuery = (id: string) =>
  queryOptions({
    queryKey: ['instanceFigures', id],
    queryFn: () => figuresOf(id),
    staleTime: FRESH_MS,
    refetchInterval: FRESH_MS,
  });

export function CostToday({ instanceId }: { instanceId: string }) {
  const { money } = useFormat();
  const figures = useQuery(figuresQuery(instanceId)).data;
  return figures ? money(figures.costToday) : null;
}

/** Load of the GPUs where the type has some, else of the processors. */
export function Load({ instance }: { instance: InstanceObject }) {
  const { load } = useTexts().instances;
  const figures = useQuery(figuresQuery(idOf(instance))).data;
  if (!figures) return null;
  const isGpu = instance.instanceSpecInfo.instanceTypeInfo.gpu.amount > 0 && !instance.withoutGpu;
  const values = isGpu ? figures.gpuPercent : figures.cpuPercent;
  const last = values.findLast((value) => value !== null) ?? null;
  const label = `${isGpu ? load.gpu : load.cpu}: ${last === null ? load.none : `${Math.round(last)} %`}`;
  return <Sparkline values={values} most={100} label={label} />;
}
