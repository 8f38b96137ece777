/**
 * What an operator is told of strays and says about them. `stop` and `delete` are wishes that the sweep obeys: who stops one keeps it
 * from the policy. Adopting is in `adopt.ts`.
 */
import { msUntilDeleted, type Stray, type StrayPolicy } from '../domain/stray.ts';
import { Refusal } from '../domain/refusal.ts';
import { confirmedStrays, handStray, strayById } from '../store/strays.ts';
import { makeAdopt, noStray, type AdoptNeeds } from './adopt.ts';
import type { Caller, ListedStray, StrayWish, Strays } from './control.ts';

export interface StrayNeeds extends AdoptNeeds {
  strays: StrayPolicy;
  /** Sweeps soon, and handles what was found. */
  sweepSoon: () => void;
}

export function makeStrays(needs: StrayNeeds): Strays {
  const { store, strays: policy } = needs;
  const adopt = makeAdopt(needs);

  async function hand(caller: Caller, { strayId, action }: StrayWish, to: 'stop' | 'delete'): Promise<void> {
    const stray = await strayById(store.read, strayId);
    if (!stray) throw noStray(strayId);
    if (to === 'stop' && stray.kind !== 'instance' && stray.kind !== 'docker')
      throw new Refusal('unsupported', `${strayId} is an ${stray.kind}, which does not run; leave it, or delete it`);
    const note = `${caller.username} said: ${action}`;
    const written = await store.write((tx) => handStray(tx, strayId, { from: ['policy', 'stop', 'delete'], to, note }));
    if (!written) throw noStray(strayId);
    needs.log.info({ stray: strayId, action, by: caller.username }, 'an operator said what is to be done with a stray');
    needs.sweepSoon();
  }

  return {
    async list() {
      const found = await confirmedStrays(store.read);
      return found.map(({ stray, ownerName }) => told(stray, ownerName, msUntilDeleted(stray, policy)));
    },
    async handle(caller, wish) {
      switch (wish.action) {
        case 'adopt':
          return { strayId: wish.strayId, instanceId: await adopt(caller, wish) };
        case 'stop':
        case 'delete':
          await hand(caller, wish, wish.action);
          return { strayId: wish.strayId, instanceId: null };
        default:
          return wish.action satisfies never;
      }
    },
  };
}

const told = (stray: Stray, ownerName: string, untilDeletedMs: number | null): ListedStray => ({
  strayId: stray.id,
  kind: stray.kind,
  regionId: stray.regionId,
  engineName: stray.engineName,
  subjectId: stray.subjectId,
  ownerId: stray.ownerId,
  ownerName,
  imageRef: stray.imageRef,
  running: stray.running,
  createdAt: stray.createdAtMs,
  firstSeenAt: stray.firstSeenAtMs,
  lastSeenAt: stray.lastSeenAtMs,
  handling: stray.handling,
  deletedInSeconds: untilDeletedMs === null ? null : Math.ceil(untilDeletedMs / 1000),
  note: stray.note,
});
