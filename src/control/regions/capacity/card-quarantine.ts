/** Quarantine of GPUs by the findings of each probe: no new launches, holders run on. */
import { quarantineChanges, type CardFinding, type Quarantine } from '../../../domain/regions/card-health.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import type { Probe } from '../../../engines/contract.ts';
import type { FleetDeps } from './fleet.ts';
import {
  deleteQuarantine,
  quarantinesOf,
  returnCard,
  saveEvidence,
  saveQuarantine,
} from '../../../store/tables/quarantine.ts';
import { capacityHolders } from '../../../store/tables/fleet.ts';
import type { Db } from '../../../store/store.ts';
import {
  idempotentWrite,
  notifyAdministrators,
  type Caller,
  type Mutation,
  type TaskDeps,
  type UseCaseDeps,
} from '../../kernel/ports.ts';

type Device = Probe['devices'][number];
export type CardDeps = Pick<TaskDeps, 'store' | 'time' | 'log'> & Pick<FleetDeps, 'sampler'>;

/** Stores the findings; returns the probe without the capacity of sick cards that nobody holds. */
export async function withoutSickCards(deps: CardDeps, regionId: string, probe: Probe): Promise<Probe> {
  const { devices, capacity } = probe;
  if (devices.length === 0) return probe;
  const before = await quarantinesOf(deps.store.read, regionId);
  let isChanged = false;
  for (const device of devices)
    if (device.findings && isAny(quarantineChanges(ofCard(before, device), device.findings))) {
      await follow(deps, regionId, device, device.findings);
      isChanged = true;
    }
  const now = isChanged ? await quarantinesOf(deps.store.read, regionId) : before;
  const sick = devices.filter((device) => ofCard(now, device).some(({ isReturned }) => !isReturned));
  const gpus = { ...capacity.gpus };
  const held = sick.length === 0 ? new Set() : await heldCards(deps, regionId);
  for (const { id, name } of sick) if (!held.has(id)) gpus[name] = (gpus[name] ?? 0) - 1;
  return { ...probe, capacity: { ...capacity, gpus } };
}

async function heldCards({ store, sampler }: CardDeps, regionId: string): Promise<Set<string | undefined>> {
  const holders = await capacityHolders(store.read, regionId);
  const gpus = holders.flatMap(({ id }) => sampler.latestOf(id)?.usage.gpus ?? []);
  return new Set(gpus.map(({ deviceId }) => deviceId));
}

const ofCard = (all: readonly Quarantine[], { id }: Device): Quarantine[] => all.filter(({ cardId }) => cardId === id);

const isAny = (changes: ReturnType<typeof quarantineChanges>): boolean =>
  Object.values(changes).some((some: readonly unknown[]) => some.length > 0);

async function follow(
  { store, time, log }: CardDeps,
  regionId: string,
  device: Device,
  findings: readonly CardFinding[],
): Promise<void> {
  const card = { regionId, cardId: device.id };
  const atMs = time.now();
  const changes = await store.write(async (tx) => {
    const found = quarantineChanges(ofCard(await quarantinesOf(tx, regionId), device), findings);
    for (const finding of found.begun) {
      await saveQuarantine(tx, card, finding, atMs);
      const data = { cardId: device.id, model: device.name, ...finding };
      await notifyAdministrators(tx, { atMs, kind: 'card.quarantined', subjectId: regionId, data });
    }
    for (const finding of found.continued) await saveEvidence(tx, card, finding);
    await deleteQuarantine(tx, card, [...found.ended, ...found.cleared]);
    if (found.ended.length > 0)
      await notifyReturn(tx, { ...card, atMs, reasons: found.ended, why: 'its readings are well again' });
    return found;
  });
  for (const finding of changes.begun)
    log.warn({ region: regionId, card: device.id, ...finding }, 'a GPU is in quarantine, and takes no launches');
}

interface Return {
  regionId: string;
  cardId: string;
  atMs: number;
  reasons: readonly string[];
  why: string;
}

const notifyReturn = (tx: Db, { regionId, atMs, ...data }: Return): Promise<void> =>
  notifyAdministrators(tx, { atMs, kind: 'card.returned', subjectId: regionId, data });

export interface ReturnCardRequest {
  regionId: string;
  cardId: string;
  reason: string;
}

export type ReturnCard = Mutation<ReturnCardRequest, { regionId: string; cardId: string; reasons: string[] }>;

export const makeReturnCard =
  (deps: UseCaseDeps & { probeSoon: () => void }): ReturnCard =>
  async ({ accountId }: Caller, { reason: why, ...card }, idempotency) => {
    const answer = await idempotentWrite(deps, accountId, idempotency, async (tx, atMs) => {
      const reasons = await returnCard(tx, card);
      if (reasons.length === 0)
        throw new Refusal(
          'not_found',
          `GPU ${card.cardId} is not in quarantine in region ${card.regionId}; POST /api/admin/fleet shows "quarantine" of each GPU`,
        );
      await notifyReturn(tx, { ...card, atMs, reasons, why });
      return { ...card, reasons };
    });
    deps.probeSoon();
    return answer;
  };
