/** Notebook tokens, sealed for the rows of their instances. */
import { notebookTokensAfter, replaceNotebookToken } from '../../../store/tables/instances.ts';
import type { Store } from '../../../store/store.ts';
import type { Seal } from '../../kernel/ports.ts';

const TOKEN_BYTES = 32;
const ROWS_PER_WRITE = 500;

export interface NotebookTokens {
  /** Returns the column of the row, by default for a new token. */
  seal(instanceId: string, token?: string): string;
  /** Empty, which no notebook accepts, for a column that was not sealed for this row. */
  open(row: { id: string; notebookToken: string }): string;
}

export function makeNotebookTokens(deps: { seal: Seal; randomBytes: (size: number) => Uint8Array }): NotebookTokens {
  const newToken = (): string => Buffer.from(deps.randomBytes(TOKEN_BYTES)).toString('base64url');
  const purpose = (instanceId: string): string => `notebook token ${instanceId}`;
  return {
    seal: (instanceId, token = newToken()) => deps.seal.seal(token, purpose(instanceId)),
    open: ({ id, notebookToken }) => deps.seal.open(notebookToken, purpose(id)) ?? '',
  };
}

/** Replaces tokens whose key is lost, and returns how many. Runs before any other writer. */
export async function replaceLostTokens(store: Store, tokens: NotebookTokens, nowMs: number): Promise<number> {
  let replaced = 0;
  for (let afterId = ''; ;) {
    const rows = await notebookTokensAfter(store.read, afterId, ROWS_PER_WRITE);
    const last = rows.at(-1);
    if (!last) return replaced;
    const lost = rows.filter((row) => tokens.open(row) === '');
    await store.write(async (tx) => {
      for (const { id } of lost) await replaceNotebookToken(tx, id, tokens.seal(id), nowMs);
    });
    replaced += lost.length;
    afterId = last.id;
  }
}
