import { makeBoundedMap } from '../../async/bounded-map.ts';
import type { Caller, Pager, TextPage } from '../../control/index.ts';
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;
/** Estimated size of an entry's key and map slot. */
const ENTRY_OVERHEAD_BYTES = 256;
const COMMA = Buffer.from(',');

interface Entry {
  version: number;
  bytes: Buffer;
}

export interface ListPages {
  answer(wanted: {
    member: string;
    caller: Caller;
    pager: Pager;
    /** Not cached. Default: false. */
    isFiltered?: boolean;
    read: () => Promise<TextPage>;
  }): Promise<Buffer>;
}

export function makeListPages({
  versionOf,
  maxBytes = DEFAULT_MAX_BYTES,
}: {
  versionOf: (accountId: string) => Promise<number>;
  maxBytes?: number;
}): ListPages {
  const bytesOf = ({ bytes }: Entry): number => bytes.length + ENTRY_OVERHEAD_BYTES;
  const entries = makeBoundedMap({ maxBytes, bytesOf });

  return {
    async answer({ member, caller, pager, isFiltered = false, read }) {
      if (isFiltered) return joined(member, pager, await read());
      const key = `${member} ${pager.currentPage} ${pager.pageSize} ${caller.accountId}`;
      // Version first: a concurrent change only causes another read.
      const version = await versionOf(caller.accountId);
      const cached = entries.get(key);
      if (cached?.version === version) return cached.bytes;
      const bytes = joined(member, pager, await read());
      const entry = { version, bytes };
      if (bytesOf(entry) <= maxBytes / 8) entries.set(key, entry);
      else entries.delete(key);
      return bytes;
    },
  };
}

function joined(member: string, { currentPage, pageSize }: Pager, { texts, totalEntries }: TextPage): Buffer {
  const shown = JSON.stringify({ currentPage, pageSize, totalEntries });
  return Buffer.concat([
    Buffer.from(`{"${member}":[`),
    ...texts.flatMap((text, index) => {
      const part = typeof text === 'string' ? Buffer.from(text) : text;
      return index === 0 ? [part] : [COMMA, part];
    }),
    Buffer.from(`],"pager":${shown}}`),
  ]);
}
