import type { Caller, Pager, TextPage } from '../../control/index.ts';
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;
/** Beside its bytes, what an entry costs: its key, its place in the map. */
const ENTRY_OVERHEAD_BYTES = 256;
const COMMA = Buffer.from(',');

interface Entry {
  version: number;
  bytes: Buffer;
}

export interface ListPages {
  answer(wanted: { member: string; caller: Caller; pager: Pager; read: () => Promise<TextPage> }): Promise<Buffer>;
}

export function makeListPages({
  versionOf,
  maxBytes = DEFAULT_MAX_BYTES,
}: {
  versionOf: (accountId: string) => Promise<number>;
  maxBytes?: number;
}): ListPages {
  /** A map keeps the order of insertion: the first is the one not used for longest. */
  const entries = new Map<string, Entry>();
  let heldBytes = 0;

  const drop = (key: string): void => {
    const entry = entries.get(key);
    if (!entry) return;
    entries.delete(key);
    heldBytes -= entry.bytes.length + ENTRY_OVERHEAD_BYTES;
  };

  const keep = (key: string, entry: Entry): void => {
    drop(key);
    const costBytes = entry.bytes.length + ENTRY_OVERHEAD_BYTES;
    if (costBytes > maxBytes / 8) return;
    entries.set(key, entry);
    heldBytes += costBytes;
    for (const oldest of entries.keys()) {
      if (heldBytes <= maxBytes) break;
      drop(oldest);
    }
  };

  return {
    async answer({ member, caller, pager, read }) {
      const key = `${member} ${pager.currentPage} ${pager.pageSize} ${caller.accountId}`;
      // Read before the page: a change in between gives the page a version too old, which is only read again.
      const version = await versionOf(caller.accountId);
      const kept = entries.get(key);
      if (kept?.version === version) {
        entries.delete(key);
        entries.set(key, kept);
        return kept.bytes;
      }
      const { texts, totalEntries } = await read();
      const shown = JSON.stringify({ currentPage: pager.currentPage, pageSize: pager.pageSize, totalEntries });
      const bytes = Buffer.concat([
        Buffer.from(`{"${member}":[`),
        ...texts.flatMap((text, index) => {
          const part = typeof text === 'string' ? Buffer.from(text) : text;
          return index === 0 ? [part] : [COMMA, part];
        }),
        Buffer.from(`],"pager":${shown}}`),
      ]);
      keep(key, { version, bytes });
      return bytes;
    },
  };
}
