/** Volumes: create, list, delete (`interface.md` §4.3, §4.4; interface-notes.md, Volumes). */
import { regionId, userId, volumeId } from '../domain/ids.ts';
import { beginOperation, FIRST_GENERATION, operationId } from '../domain/operation.ts';
import { Refusal } from '../domain/refusal.ts';
import { publicVolume, type Volume } from '../domain/volume.ts';
import { accountTotals } from '../store/accounts.ts';
import { appendEvent } from '../store/events.ts';
import type { Store } from '../store/store.ts';
import {
  holdVolumes,
  insertVolume,
  mountersOf,
  volumeFromRow,
  volumeTexts,
  writeVolumeWish,
} from '../store/volumes.ts';
import type { Volumes } from './control.ts';
import type { Offers } from './offers.ts';
import type { Once } from './once.ts';

export interface VolumeNeeds {
  store: Store;
  offers: () => Promise<Offers>;
  now: () => number;
  once: Once;
  randomUuid: () => string;
  wake: () => void;
}

export const makeVolumes = ({ store, offers, now, once, randomUuid, wake }: VolumeNeeds): Volumes => ({
  async create(caller, body, idempotency) {
    const { regions } = await offers();
    const answer = await store.write((tx) => {
      const nowMs = now();
      return once(tx, caller.accountId, idempotency, nowMs, async () => {
        if (!regions.has(body.region)) {
          throw new Refusal('not_found', `region ${body.region} not found; POST /api/region/list names them`);
        }
        const volume: Volume = {
          id: volumeId(randomUuid()),
          ownerId: userId(caller.accountId),
          ownerName: caller.username,
          createdAtMs: nowMs,
          name: body.name,
          regionId: regionId(body.region),
          type: body.volumeType,
          sizeGB: body.sizeGB,
          usageBytes: 0,
          status: 'Pending',
          generation: FIRST_GENERATION,
          operation: beginOperation('createVolume', 'user', nowMs),
        };
        if (!(await insertVolume(tx, volume, nowMs))) throw new Refusal('name_taken', 'Volume already exists');
        await appendEvent(tx, {
          accountId: caller.accountId,
          atMs: nowMs,
          kind: 'volume.created',
          subjectId: volume.id,
          data: { name: volume.name, sizeGB: volume.sizeGB },
          counts: { volumes: 1 },
        });
        return { volumeText: JSON.stringify(publicVolume(volume)) };
      });
    });
    wake();
    // An answer that was kept before there were operations has the volume alone.
    const { id }: { id: string } = JSON.parse(answer.volumeText);
    return { ...answer, operationId: operationId(id, FIRST_GENERATION) };
  },

  async list(caller, { currentPage, pageSize }) {
    const totals = await accountTotals(store.read, caller.accountId);
    const offset = (currentPage - 1) * pageSize;
    const texts = offset < totals.volumes ? await volumeTexts(store.read, caller.accountId, offset, pageSize) : [];
    return { texts, totalEntries: totals.volumes };
  },

  async delete(caller, body, idempotency) {
    const answer = await store.write((tx) => {
      const nowMs = now();
      return once(tx, caller.accountId, idempotency, nowMs, async () => {
        const [row] = await holdVolumes(tx, caller.accountId, [body.id]);
        if (!row)
          throw new Refusal('not_found', `volume ${body.id} not found; POST /api/storage/volume/list names yours`);
        const living = (await mountersOf(tx, row.id)).filter((mounter) => mounter.living);
        if (living.length > 0) {
          const names = living.map(({ instanceId }) => instanceId).join(', ');
          throw new Refusal('in_use', `volume ${row.id} is mounted by ${names}; terminate these first`);
        }
        const volume = volumeFromRow(row);
        const gone: Volume = {
          ...volume,
          status: 'Terminating',
          generation: volume.generation + 1,
          operation: beginOperation('deleteVolume', 'user', nowMs),
        };
        await writeVolumeWish(tx, volume, gone, { listed: false, dueAtMs: nowMs });
        await appendEvent(tx, {
          accountId: caller.accountId,
          atMs: nowMs,
          kind: 'volume.deleted',
          subjectId: row.id,
          data: { name: row.name },
          counts: { volumes: -1 },
        });
        return { id: row.id, operationId: operationId(gone.id, gone.generation) };
      });
    });
    wake();
    return answer;
  },
});
