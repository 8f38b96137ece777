/** GPUs of containers: chosen at creation, recorded in a label, checked before each later start. */
import type { ContainerInspectInfo } from 'dockerode';
import { makeSemaphore } from '../../../async/semaphore.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { instanceId, type InstanceId } from '../../../domain/kernel/ids.ts';
import { distanceOf } from '../../../domain/regions/card-facts.ts';
import { UNKNOWN_MODEL } from '../../../domain/regions/catalog.ts';
import { gpuNameIn } from '../../../domain/regions/placement.ts';
import { containerName, installationLabel, labels } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { abortFault } from '../../../docker/faults.ts';
import type { EngineSpec } from '../../contract.ts';
import { uuidOf } from '../cards/card-watch.ts';
import { currentGpuId, excludes, withoutTurn, type HostGpu, type TurnsAmong } from '../client/host-gpus.ts';
import type { HostFacts } from '../client/host-facts.ts';
import { listContainers } from './container-calls.ts';
import { isOurs } from './observation.ts';

export const gpusOf = (found: Record<string, string>): string[] =>
  (found[labels.gpus] ?? '').split(',').filter((id) => id !== '');

interface Holder {
  ownerId: string;
  ids: readonly string[];
  running: boolean;
}

interface ChoiceRules {
  ownerId: string;
  among: TurnsAmong;
  distance?: (a: string, b: string) => number;
}

/**
 * Turns on cards of the owner first, then unassigned GPUs, then GPUs of stopped holders. Null: too
 * few. `among`: accounts to share a card. Several GPUs are near to each other where such are free.
 */
export function chooseGpus(
  count: number,
  devices: readonly string[],
  holders: readonly Holder[],
  { ownerId, among, distance = () => 1 }: ChoiceRules,
): string[] | null {
  const running = holders.filter((holder) => holder.running);
  const onCard = (id: string, all: readonly Holder[]): Holder[] =>
    all.filter(({ ids }) => ids.some((other) => withoutTurn(other) === withoutTurn(id)));
  const isFree = (id: string): boolean =>
    !running.some(({ ids }) => ids.some((other) => excludes(id, other))) &&
    (among === 'all' || onCard(id, running).every((holder) => holder.ownerId === ownerId));
  const rank = (id: string): number => {
    if (onCard(id, running).length > 0) return 0;
    return holders.some(({ ids }) => ids.some((other) => excludes(id, other))) ? 2 : 1;
  };
  const free = devices.filter(isFree).toSorted((a, b) => rank(a) - rank(b));
  if (free.length < count) return null;
  const between = (a: string, b: string): number => (a === b ? 0 : distance(a, b));
  const around = (id: string): string[] =>
    free.toSorted((a, b) => rank(a) - rank(b) || between(id, a) - between(id, b)).slice(0, count);
  const width = (ids: readonly string[]): number =>
    ids.reduce((sum, a) => sum + ids.reduce((of, b) => of + between(a, b), 0), 0);
  const sets = free.map(around);
  return sets.reduce((best, set) => (width(set) < width(best) ? set : best), sets[0] ?? []);
}

/** Distance of two GPUs of the host. */
export function distances(gpus: readonly HostGpu[]): (a: string, b: string) => number {
  const byId = new Map(gpus.map((gpu) => [gpu.id, gpu]));
  return (a, b) => {
    const [one, other] = [byId.get(a), byId.get(b)];
    return distanceOf(one?.facts?.links[(other && uuidOf(other)) ?? '']);
  };
}

const idOf = (found: Record<string, string>): InstanceId => instanceId(found[labels.id] ?? '');
const ownerOf = (found: Record<string, string>): string => found[labels.owner] ?? '';
const idsOf = (found: Record<string, string>, gpus: readonly HostGpu[]): string[] =>
  gpusOf(found).map((id) => currentGpuId(gpus, id));

export function devicesFor(model: string | undefined, gpus: readonly HostGpu[]): string[] {
  const names = [...new Set(gpus.map(({ name }) => name))];
  const wanted = gpuNameIn(names, model ?? UNKNOWN_MODEL);
  return gpus.filter(({ name }) => name === wanted).map(({ id }) => id);
}

export interface GpuAllocator {
  /** GPUs given to the instance count as taken until the end of `start`. */
  whileStarting<T>(id: InstanceId, start: () => Promise<T>): Promise<T>;
  /** Runs `create` with chosen ids, one call at a time. Faults: `no_capacity`, `rejected`. */
  withChosen<T>(
    wanted: Pick<EngineSpec, 'id' | 'gpus' | 'gpuName' | 'ownerId' | 'withoutGpus'>,
    facts: HostFacts,
    signal: AbortSignal,
    create: (ids: readonly string[]) => Promise<T>,
  ): Promise<T>;
  /** Throws `no_capacity` when a GPU of this stopped container is not for it now. */
  checkFree(
    info: ContainerInspectInfo,
    facts: HostFacts,
    signal: AbortSignal,
    withoutGpus: EngineSpec['withoutGpus'],
  ): Promise<void>;
}

const HAS_PROCESSES = new Set(['running', 'paused', 'restarting']);

export function makeGpuAllocator(client: DockerClient, installation: string): GpuAllocator {
  const choices = makeSemaphore(1, { abortError: abortFault });
  const starting = new Map<InstanceId, Holder>();

  /** Compares the name, too: an image gives its labels to containers that others make. */
  const isInstance = (found: Record<string, string>, names: readonly string[]): boolean =>
    isOurs(found, installation) && names.includes(`/${containerName(idOf(found))}`);

  async function listOthers(id: InstanceId, { gpus }: HostFacts, signal: AbortSignal): Promise<Holder[]> {
    const all = await listContainers(client, [installationLabel(installation)], signal);
    const listed = all
      .filter(({ Labels, Names }) => isInstance(Labels, Names) && !starting.has(idOf(Labels)))
      .map(({ Labels, State }): [InstanceId, Holder] => [
        idOf(Labels),
        { ownerId: ownerOf(Labels), ids: idsOf(Labels, gpus), running: HAS_PROCESSES.has(State) },
      ]);
    return [...listed, ...starting].flatMap(([other, holder]) => (other === id ? [] : [holder]));
  }

  return {
    async whileStarting(id, start) {
      try {
        return await start();
      } finally {
        starting.delete(id);
      }
    },
    async withChosen({ id, gpus: count, gpuName, ownerId, withoutGpus }, facts, signal, create) {
      if (count === 0) return create([]);
      return choices.run(
        async () => {
          const devices = devicesFor(gpuName, facts.gpus);
          if (devices.length < count) {
            const model = devices.length < facts.gpus.length ? ` of the model ${gpuName}` : '';
            const text = `the instance needs ${count} GPUs, and the host has ${devices.length}${model}; choose a type with fewer GPUs`;
            throw new EngineFault('rejected', text, { retry: false, reason: 'gpuMissing' });
          }
          const fit = devices.filter((device) => withoutGpus?.has(device) !== true);
          const rules = { ownerId, among: facts.turnsAmong, distance: distances(facts.gpus) };
          const chosen = chooseGpus(count, fit, await listOthers(id, facts, signal), rules);
          if (chosen === null) throw gpusTaken();
          const created = await create(chosen);
          starting.set(id, { ownerId, ids: chosen, running: true });
          return created;
        },
        { signal },
      );
    },
    async checkFree({ Config: { Labels } }, facts, signal, withoutGpus) {
      const ids = idsOf(Labels, facts.gpus);
      if (ids.length === 0 || facts.gpuDriver === null) return;
      if (ids.some((id) => withoutGpus?.has(id))) throw gpuSick();
      await choices.run(
        async () => {
          const [id, ownerId] = [idOf(Labels), ownerOf(Labels)];
          const rules = { ownerId, among: facts.turnsAmong };
          const others = await listOthers(id, facts, signal);
          if (chooseGpus(ids.length, ids, others, rules) === null) throw gpusTaken();
          starting.set(id, { ownerId, ids, running: true });
        },
        { signal },
      );
    },
  };
}

const gpuSick = (): EngineFault =>
  new EngineFault('no_capacity', 'a GPU of the instance is in quarantine; the operator can say more, and return it', {
    retry: true,
    reason: 'gpuBusy',
  });

const gpusTaken = (): EngineFault =>
  new EngineFault('no_capacity', 'other instances use the GPUs of the host at the moment; Berth retries', {
    retry: true,
    reason: 'gpuBusy',
  });
