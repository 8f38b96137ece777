/**
 * Pages of an account's volumes. SQLite walks an offset row by row (the last page of 10,000 took
 * twice as long as the first), so a page starts from the nearest cached position. Positions hold
 * for one `version` of the account, which every listed change increments.
 */
import { count, prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';

const STRETCH = 64;
/** Accounts with cached positions; evicts the least recently used. */
const OWNERS = 1_000;

interface Known {
  place: number;
  createdAtMs: number;
  id: string;
}
interface Places {
  version: number;
  known: Map<number, Known>;
}

export interface VolumePages {
  page(db: Db, ownerId: string, offset: number, limit: number): Promise<{ texts: string[]; totalEntries: number }>;
}

const totals = prepared<{ ownerId: string }>()((db, p) =>
  db.selectFrom('account').select(['volumeCount', 'version']).where('id', '=', p('ownerId')),
);

const listed = (db: Db) =>
  db
    .selectFrom('volume')
    .select(['publicText', 'createdAtMs', 'id'])
    .where('listed', '=', 1)
    .orderBy('createdAtMs', 'desc')
    .orderBy('id', 'desc');

const fromNewest = prepared<{ ownerId: string; offset: number; limit: number }>()((db, p) =>
  listed(db)
    .where('ownerId', '=', p('ownerId'))
    .limit(count(p('limit')))
    .offset(count(p('offset'))),
);

const fromKnown = prepared<{ ownerId: string; createdAtMs: number; id: string; offset: number; limit: number }>()(
  (db, p) =>
    listed(db)
      .where('ownerId', '=', p('ownerId'))
      .where(({ eb, refTuple, tuple }) => eb(refTuple('createdAtMs', 'id'), '<=', tuple(p('createdAtMs'), p('id'))))
      .limit(count(p('limit')))
      .offset(count(p('offset'))),
);

export function makeVolumePages(): VolumePages {
  const owners = new Map<string, Places>();

  function placesOf(ownerId: string, version: number): Places {
    const before = owners.get(ownerId);
    owners.delete(ownerId);
    const places = before?.version === version ? before : { version, known: new Map<number, Known>() };
    owners.set(ownerId, places);
    for (const oldest of owners.keys()) {
      if (owners.size <= OWNERS) break;
      owners.delete(oldest);
    }
    return places;
  }

  return {
    async page(db, ownerId, offset, limit) {
      // Read before the page: after a concurrent change the next page drops the positions.
      const [account] = await totals(db, { ownerId });
      const totalEntries = account?.volumeCount ?? 0;
      if (!account || offset >= totalEntries) return { texts: [], totalEntries };
      const stretch = Math.floor(offset / STRETCH);
      if (stretch === 0) return { texts: textsOf(await fromNewest(db, { ownerId, offset, limit })), totalEntries };
      const { known } = placesOf(ownerId, account.version);
      const near = nearest(known, offset);
      const rows = near
        ? await fromKnown(db, { ownerId, ...near, offset: offset - near.place, limit })
        : await fromNewest(db, { ownerId, offset, limit });
      const [first] = rows;
      if (first && !known.has(stretch))
        known.set(stretch, { place: offset, createdAtMs: first.createdAtMs, id: first.id });
      return { texts: textsOf(rows), totalEntries };
    },
  };
}

const textsOf = (rows: readonly { publicText: string }[]): string[] => rows.map((row) => row.publicText);

function nearest(known: ReadonlyMap<number, Known>, place: number): Known | null {
  for (let stretch = Math.floor(place / STRETCH); stretch > 0; stretch--) {
    const found = known.get(stretch);
    if (found && found.place <= place) return found;
  }
  return null;
}
