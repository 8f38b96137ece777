/**
 * The file `secrets.key`. The setting `secretsKeyId` of the database names the key that the rows
 * are sealed under: a start with another key ends.
 */
import { hkdfSync, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Log } from '../control/kernel/logger.ts';
import { makeNotebookTokens, replaceLostTokens } from '../control/access/routing/notebook-tokens.ts';
import { makeSeal } from '../control/kernel/seal.ts';
import { saveSetting, setting } from '../store/tables/catalog.ts';
import type { Store } from '../store/store.ts';
import { readStored, writeAtomically } from './secret-files.ts';

const KEY_BYTES = 32;
const ID_BYTES = 4;
const SETTING = 'secretsKeyId';

interface SecretsKeyDeps {
  dataFolder: string;
  /** Id of a key that the operator declares lost. */
  lostSecretsKey: string | null;
  store: Store;
  log: Pick<Log, 'warn'>;
  now: () => number;
}

/** Returns the key after all rows are sealed under it. Runs before any other writer. */
export async function openSecretsKey(deps: SecretsKeyDeps): Promise<Uint8Array> {
  const { dataFolder, lostSecretsKey, store } = deps;
  const file = join(dataFolder, 'secrets.key');
  const found = await readKey(file);
  const sealedUnder = await setting(store.read, SETTING);
  const isOther = found === null || keyId(found) !== sealedUnder;
  if (sealedUnder !== undefined && isOther && lostSecretsKey !== sealedUnder) throw wrongKey(file, found, sealedUnder);
  const key = found ?? randomBytes(KEY_BYTES);
  if (found === null) await writeAtomically(file, key);
  if (isOther) await sealUnder(key, deps);
  return key;
}

async function readKey(file: string): Promise<Buffer | null> {
  const stored = await readStored(file);
  if (stored === null || stored.length === KEY_BYTES) return stored;
  const text = `${file} has ${stored.length} bytes and must have ${KEY_BYTES}: restore the file from a backup. Without a backup, remove the file and start again, which says what is lost.`;
  throw new Error(text);
}

const keyId = (key: Uint8Array): string =>
  Buffer.from(hkdfSync('sha256', key, '', 'id of the key', ID_BYTES)).toString('hex');

function wrongKey(file: string, found: Uint8Array | null, sealedUnder: string): Error {
  const what = found === null ? `${file} is missing` : `${file} is another key (${keyId(found)})`;
  const text = `${what}, and the secrets of the database are sealed under the key ${sealedUnder}. Restore the file from the backup that belongs to this database. If the key is lost for good, start with BERTH_LOST_SECRETS_KEY=${sealedUnder}: Berth then replaces what it can. Registry credentials have to be registered again, environment variables set again, running instances need a restart before their notebooks open, and ssh host keys change.`;
  return new Error(text);
}

async function sealUnder(key: Uint8Array, { store, log, now }: SecretsKeyDeps): Promise<void> {
  const tokens = makeNotebookTokens({ seal: makeSeal({ key, randomBytes }), randomBytes });
  const replaced = await replaceLostTokens(store, tokens, now());
  if (replaced > 0) {
    const text = 'replaced notebook tokens whose key is lost; running instances need a restart for their notebooks';
    log.warn({ instances: replaced }, text);
  }
  // Last: an interrupted start repeats the step.
  await store.write((tx) => saveSetting(tx, SETTING, keyId(key)));
}
