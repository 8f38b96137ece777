/**
 * # Processors of instances
 *
 * Programs count the processors that they may run on, so an instance with whole processors has a
 * set. CPU is overcommitted (decision 8), so sets overlap: a start takes the processors that the
 * fewest running instances have. The containers are the record.
 */
import { createHash } from 'node:crypto';
import type { ContainerInspectInfo } from 'dockerode';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { EngineSpec } from '../../contract.ts';

/** Reads the kernel's form, such as `0-2,5`. */
export const parseProcessors = (list: string): number[] =>
  list
    .trim()
    .split(',')
    .filter((range) => range !== '')
    .flatMap((range) => {
      const [first = 0, last = first] = range.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, index) => first + index);
    });

export const listProcessors = (processors: readonly number[]): string => processors.join(',');

/** Null: the instance may run on all processors. */
export function chooseProcessors(
  { id, cpuMilli }: Pick<EngineSpec, 'id' | 'cpuMilli'>,
  {
    host,
    others,
    current,
  }: { host: readonly number[]; others: Iterable<readonly number[]>; current: readonly number[] },
): number[] | null {
  const count = cpuMilli / 1_000;
  if (!Number.isInteger(count) || count >= host.length) return null;
  const loads = new Map(host.map((processor) => [processor, 0]));
  for (const processor of [...others].flat()) loads.set(processor, (loads.get(processor) ?? 0) + 1);
  // Installations on one host do not see each other: each instance begins elsewhere.
  const begin = createHash('sha256').update(id).digest().readUInt32BE() % host.length;
  const rank = (processor: number): number =>
    current.includes(processor) ? -1 : (host.indexOf(processor) - begin + host.length) % host.length;
  return [...host]
    .sort((a, b) => (loads.get(a) ?? 0) - (loads.get(b) ?? 0) || rank(a) - rank(b))
    .slice(0, count)
    .sort((a, b) => a - b);
}

interface HostProcessors {
  processors: readonly number[] | null;
}

export interface Processors {
  /** `CpusetCpus` for the next run, reserved until an observation; '' for all processors. */
  choose(spec: EngineSpec, facts: HostProcessors, current?: string): string;
  /** Some of these are unknown to the engine: it may have started before they were added. */
  refuse(facts: HostProcessors): void;
  /** Records the set of a running container; a stopped or absent one holds none. */
  observe(id: InstanceId, info: Pick<ContainerInspectInfo, 'State' | 'HostConfig'> | null): void;
}

export function makeProcessors(): Processors {
  const held = new Map<InstanceId, number[]>();
  let refused: string | undefined;
  return {
    choose(spec, { processors: host }, current = '') {
      if (host === null || refused === listProcessors(host)) return current;
      const others = [...held].flatMap(([id, processors]) => (id === spec.id ? [] : [processors]));
      const had = held.get(spec.id) ?? parseProcessors(current);
      const chosen = chooseProcessors(spec, { host, others, current: had });
      if (chosen !== null) held.set(spec.id, chosen);
      else held.delete(spec.id);
      // An engine cannot take back a set.
      return chosen === null ? current && listProcessors(host) : listProcessors(chosen);
    },
    refuse({ processors }) {
      refused = listProcessors(processors ?? []);
    },
    observe(id, info) {
      const list = info?.State.Running ? (info.HostConfig.CpusetCpus ?? '') : '';
      if (list === '') held.delete(id);
      else held.set(id, parseProcessors(list));
    },
  };
}
