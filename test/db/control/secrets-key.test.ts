/** The key of the data folder and the rows under it: first start, wrong and lost key. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { makeNotebookTokens } from '../../../src/control/access/routing/notebook-tokens.ts';
import { makeSeal } from '../../../src/control/kernel/seal.ts';
import { openSecretsKey } from '../../../src/main/secrets-key.ts';
import type { Store } from '../../../src/store/store.ts';
import { makeWorld } from '../../fixtures/control.ts';
import { onBothEngines, recordingLog } from '../../fixtures/store.ts';
import { notebookTokens } from '../../fixtures/test-seal.ts';
import { accountRow, instanceRow, regionRow } from '../store/rows.ts';

const CLEAR = { 'notebook-1': '1'.repeat(43), 'notebook-2': '2'.repeat(43) };
const NOW = 5_000;

async function emptyFolder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'berth-key-'));
  onTestFinished(() => rm(made, { recursive: true }));
  return made;
}

const startIn = (dataFolder: string, store: Store, lostSecretsKey: string | null = null) =>
  openSecretsKey({ dataFolder, store, lostSecretsKey, log: recordingLog(), now: () => NOW });

/** Instances with tokens under the key of the first start; the second is stopped. */
async function startWithTokens(folder: string, store: Store): Promise<Uint8Array> {
  const key = await startIn(folder, store);
  const seal = makeSeal({ key, randomBytes });
  await store.write(async (tx) => {
    await tx
      .insertInto('account')
      .values(accountRow({ id: 'anna' }))
      .execute();
    await tx
      .insertInto('region')
      .values(regionRow({ id: 'here' }))
      .execute();
    for (const [id, token] of Object.entries(CLEAR)) {
      const notebookToken = seal.seal(token, `notebook token ${id}`);
      const desired = id === 'notebook-2' ? 'stopped' : 'running';
      const row = instanceRow({ id, ownerId: 'anna', regionId: 'here', notebookToken, desired });
      await tx.insertInto('instance').values(row).execute();
    }
  });
  return key;
}

const rowsOf = (store: Store) =>
  store.read.selectFrom('instance').select(['id', 'notebookToken', 'filesStale', 'dueAtMs']).orderBy('id').execute();

/** Tokens by instance, as the holder of the key reads them. */
async function tokensOf(store: Store, key: Uint8Array): Promise<Record<string, string>> {
  const tokens = makeNotebookTokens({ seal: makeSeal({ key, randomBytes }), randomBytes });
  return Object.fromEntries((await rowsOf(store)).map((row) => [row.id, tokens.open(row)]));
}

onBothEngines('the key that seals the database', (open) => {
  test('is created once, readable by its owner only, and persists', async () => {
    const store = await open();
    const folder = await emptyFolder();
    const key = await startIn(folder, store);
    expect(key).toHaveLength(32);
    expect(Buffer.from(await startIn(folder, store)).equals(key)).toBe(true);
    expect((await stat(join(folder, 'secrets.key'))).mode & 0o777).toBe(0o600);
    expect(Buffer.from(await startIn(await emptyFolder(), await open())).equals(key)).toBe(false);
  });

  test('is reported when broken, and never replaced silently', async () => {
    const folder = await emptyFolder();
    await writeFile(join(folder, 'secrets.key'), 'short');
    await expect(startIn(folder, await open())).rejects.toThrow(/has 5 bytes and must have 32.*backup/);
    expect(await readFile(join(folder, 'secrets.key'), 'utf8')).toBe('short');
  });

  test('opens a token in its own row only', async () => {
    const store = await open();
    const key = await startWithTokens(await emptyFolder(), store);
    const [first] = await rowsOf(store);
    await store.write((tx) =>
      tx
        .updateTable('instance')
        .set({ notebookToken: first?.notebookToken ?? '' })
        .execute(),
    );
    expect(await tokensOf(store, key)).toEqual({ ...CLEAR, 'notebook-2': '' });
  });

  test('ends the start when the file is missing or another, says what to do, and changes nothing', async () => {
    const store = await open();
    const folder = await emptyFolder();
    const key = await startWithTokens(folder, store);
    const file = join(folder, 'secrets.key');
    const sealed = await rowsOf(store);

    await rm(file);
    const what =
      /Restore the file from the backup.*lost for good.*BERTH_LOST_SECRETS_KEY=[0-9a-f]{8}:.*registered again/;
    await expect(startIn(folder, store)).rejects.toThrow(/secrets\.key is missing/);
    await expect(startIn(folder, store)).rejects.toThrow(what);
    await expect(stat(file)).rejects.toThrow('ENOENT');

    await writeFile(file, randomBytes(32));
    await expect(startIn(folder, store)).rejects.toThrow(/secrets\.key is another key \([0-9a-f]{8}\)/);
    await expect(startIn(folder, store, '00000000')).rejects.toThrow(what);
    expect(await rowsOf(store)).toEqual(sealed);

    await writeFile(file, key);
    expect(await tokensOf(store, await startIn(folder, store))).toEqual(CLEAR);
  });

  test('replaces tokens whose key the operator declares lost, and refreshes running instances', async () => {
    const store = await open();
    const folder = await emptyFolder();
    const lost = await startWithTokens(folder, store);
    await rm(join(folder, 'secrets.key'));
    const error = await startIn(folder, store).catch(String);
    const id = /BERTH_LOST_SECRETS_KEY=([0-9a-f]{8})/.exec(String(error))?.[1] ?? '';

    // The power fails after the replacement: the next start repeats it.
    const failing: Store = {
      ...store,
      read: store.read,
      write: async (work) => {
        await store.write(work);
        throw new Error('the power failed');
      },
    };
    await expect(startIn(folder, failing, id)).rejects.toThrow('the power failed');
    const key = await startIn(folder, store, id);
    expect(key).not.toEqual(lost);
    const tokens = Object.values(await tokensOf(store, key));
    expect(tokens.map((token) => token.length)).toEqual([43, 43]);
    for (const clear of Object.values(CLEAR)) expect(tokens).not.toContain(clear);
    expect((await rowsOf(store)).map(({ filesStale, dueAtMs }) => [filesStale, dueAtMs])).toEqual([
      [1, NOW],
      [0, null],
    ]);
    // Naming the lost key again is harmless.
    expect(Buffer.from(await startIn(folder, store, id)).equals(key)).toBe(true);
    expect(Object.values(await tokensOf(store, key))).toEqual(tokens);
  });
});

onBothEngines('notebook tokens', (open) => {
  test('are sealed at launch, and the gateway gets the one in the control files', async () => {
    const world = await makeWorld(await open());
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, ({ instanceRuntimeInfo: { status } }) => status === 'Running');
    const row = (await rowsOf(world.store)).find(({ id }) => id === instanceId);
    const token = notebookTokens.open(row ?? { id: '', notebookToken: '' });
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(row?.notebookToken).not.toContain(token);
    const route = await world.running.control.forwarding.route(instanceId);
    expect(route?.notebookToken).toBe(token);
  });
});
