/**
 * Pages of an account's volumes. SQLite walks an offset row by row (the last page of 10,000 took
 * twice as long as the first), so a page starts from the nearest cached position. Positions hold
 * for one `version` of the account, which every listed change increments.
 */
import { sql } from 'kysely';
import { labelledText, matches, type ListFilter } from './labelled-rows.ts';
import { inOrder, orderOf } from './list-order.ts';
import { count, prepared } from '../db/prepared.ts';
import type { VolumeSort } from '../../domain/kernel/list-sorts.ts';
import type { Db } from '../store.ts';

const STRETCH = 64;
/** Accounts with cached positions; evicts the least recently used. */
const OWNERS = 1_000;

interface CachedPosition {
  position: number;
  createdAtMs: number;
  id: string;
}
interface CachedPositions {
  version: number;
  positions: Map<number, CachedPosition>;
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
    .select([labelledText.as('publicText'), 'createdAtMs', 'id'])
    .where('listed', '=', sql.lit(1))
    .orderBy('createdAtMs', 'desc')
    .orderBy('id', 'desc');

const fromNewest = prepared<{ ownerId: string; offset: number; limit: number }>()((db, p) =>
  listed(db)
    .where('ownerId', '=', p('ownerId'))
    .limit(count(p('limit')))
    .offset(count(p('offset'))),
);

const fromPosition = prepared<{ ownerId: string; createdAtMs: number; id: string; offset: number; limit: number }>()(
  (db, p) =>
    listed(db)
      .where('ownerId', '=', p('ownerId'))
      .where(({ eb, refTuple, tuple }) => eb(refTuple('createdAtMs', 'id'), '<=', tuple(p('createdAtMs'), p('id'))))
      .limit(count(p('limit')))
      .offset(count(p('offset'))),
);

export interface VolumeFilter extends ListFilter {
  sort?: VolumeSort | undefined;
}

/** A page of the listed volumes that match, and their number. */
export async function filteredVolumePage(
  db: Db,
  ownerId: string,
  { sort, ...filter }: VolumeFilter,
  { offset, limit }: { offset: number; limit: number },
): Promise<{ texts: string[]; totalEntries: number }> {
  const matching = db
    .selectFrom('volume')
    .where('ownerId', '=', ownerId)
    .where('listed', '=', sql.lit(1))
    .where(matches(db, ownerId, filter));
  const order = orderOf(sort);
  const page = { limit, offset: Math.min(offset, Number.MAX_SAFE_INTEGER) };
  const texts = sort
    ? db.selectFrom('volume').where('id', 'in', inOrder(matching.select('id'), order, page))
    : matching.limit(page.limit).offset(page.offset);
  const [counted, rows] = await Promise.all([
    matching.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirst(),
    inOrder(texts.select(labelledText.as('publicText')), order).execute(),
  ]);
  return { texts: textsOf(rows), totalEntries: counted?.total ?? 0 };
}

export function makeVolumePages(): VolumePages {
  const owners = new Map<string, CachedPositions>();

  function positionsOf(ownerId: string, version: number): CachedPositions {
    const before = owners.get(ownerId);
    owners.delete(ownerId);
    const cached = before?.version === version ? before : { version, positions: new Map<number, CachedPosition>() };
    owners.set(ownerId, cached);
    for (const oldest of owners.keys()) {
      if (owners.size <= OWNERS) break;
      owners.delete(oldest);
    }
    return cached;
  }

  return {
    async page(db, ownerId, offset, limit) {
      // Read before the page: after a concurrent change the next page drops the positions.
      const [account] = await totals(db, { ownerId });
      const totalEntries = account?.volumeCount ?? 0;
      if (!account || offset >= totalEntries) return { texts: [], totalEntries };
      const stretch = Math.floor(offset / STRETCH);
      if (stretch === 0) return { texts: textsOf(await fromNewest(db, { ownerId, offset, limit })), totalEntries };
      const { positions } = positionsOf(ownerId, account.version);
      const start = nearestPosition(positions, offset);
      const rows = start
        ? await fromPosition(db, { ownerId, ...start, offset: offset - start.position, limit })
        : await fromNewest(db, { ownerId, offset, limit });
      const [first] = rows;
      if (first && !positions.has(stretch))
        positions.set(stretch, { position: offset, createdAtMs: first.createdAtMs, id: first.id });
      return { texts: textsOf(rows), totalEntries };
    },
  };
}

const textsOf = (rows: readonly { publicText: string }[]): string[] => rows.map((row) => row.publicText);

function nearestPosition(positions: ReadonlyMap<number, CachedPosition>, position: number): CachedPosition | null {
  for (let stretch = Math.floor(position / STRETCH); stretch > 0; stretch--) {
    const candidate = positions.get(stretch);
    if (candidate && candidate.position <= position) return candidate;
  }
  return null;
}
