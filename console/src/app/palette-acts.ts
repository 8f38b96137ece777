/** Reads `stop trainer` as acts on instances. Pure. */
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';
import { actNames, mayAct, nameOf, type ActName } from '../pages/instances/allowed-acts.ts';

export type PaletteAct = ActName | 'open';
const names: readonly PaletteAct[] = ['open', ...actNames];

interface ReadActs {
  /** Acts whose name one of the words begins; empty: none is asked for. */
  acts: readonly PaletteAct[];
  /** What is left, which names the instance. */
  name: string;
}

export function readActs(asked: string, words: Readonly<Record<PaletteAct, string>>): ReadActs {
  const [first = '', ...rest] = asked.split(/\s+/);
  const acts = first === '' ? [] : names.filter((act) => words[act].toLowerCase().startsWith(first));
  return acts.length === 0 ? { acts, name: asked } : { acts, name: rest.join(' ') };
}

const canOpen = ({ instanceRuntimeInfo }: InstanceObject): boolean => instanceRuntimeInfo.status === 'Running';

/** Acts that the instances of this name allow now. */
export const actsOn = (
  rows: readonly InstanceObject[],
  { acts, name }: ReadActs,
): { act: PaletteAct; instance: InstanceObject }[] =>
  rows
    .filter((row) => nameOf(row).toLowerCase().includes(name))
    .flatMap((instance) =>
      acts
        .filter((act) => (act === 'open' ? canOpen(instance) : mayAct(instance, act)))
        .map((act) => ({ act, instance })),
    );
