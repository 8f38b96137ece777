/**
 * The store under test, for every room's tests.
 *
 *     onBothEngines('instances', (open) => {
 *       test('…', async () => {
 *         const store = await open();
 *         …
 *       });
 *     });
 *
 * runs the tests on SQLite in a temporary folder and on a real PostgreSQL, each `open()` an empty, migrated database of its own;
 * `open.again(store)` opens the same database once more, as a second process would (PostgreSQL only: SQLite has one process).
 * All are stopped and removed after each test. Where the engine does not matter: `openTempStore()`, SQLite alone.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, inject } from 'vitest';
import { openStore } from '../../../src/store/open.ts';
import type { Store, StoreLog } from '../../../src/store/store.ts';
import type { PostgresServer } from './postgres-server.ts';
import { administer, startWithTemplate, TEMPLATE } from './postgres-template.ts';
import './global-setup.ts';

export type EngineKind = Store['kind'];

export interface Open {
  (): Promise<Store>;
  again(store: Store): Promise<Store>;
  /** A database without a table, for tests of what opening does to it; removed after the test, its stores are the test's. */
  empty(): Promise<Place>;
  readonly kind: EngineKind;
}

/** Keeps what a store tells, for tests that look at it. */
export function recordingLog(): StoreLog & { lines: { level: string; facts: object; text: string }[] } {
  const lines: { level: string; facts: object; text: string }[] = [];
  const at = (level: string) => (facts: object, text: string) => void lines.push({ level, facts, text });
  return { lines, info: at('info'), warn: at('warn'), error: at('error') };
}

export const quietLog: StoreLog = { info: () => {}, warn: () => {}, error: () => {} };

export type Place = { file: string } | { url: string };

/** Makes and removes databases of one engine. */
interface Grounds {
  kind: EngineKind;
  make(content: 'migrated' | 'empty'): Promise<Place>;
  remove(place: Place): Promise<void>;
  close(): Promise<void>;
}

const sqliteGrounds = (): Grounds => ({
  kind: 'sqlite',
  make: async () => ({ file: join(await mkdtemp(join(tmpdir(), 'berth-store-')), 'berth.db') }),
  remove: async (place) => {
    if ('file' in place) await rm(join(place.file, '..'), { recursive: true, force: true });
  },
  close: async () => {},
});

/** The run's server if there is one, else one of this file's own, started by the first test that asks. */
function postgresGrounds(): Grounds {
  let own: Promise<PostgresServer> | undefined;
  const urlOf = async (database: string): Promise<string> => {
    const shared = inject('postgresUrl');
    if (shared) return shared.replace('%s', database);
    return (await (own ??= startWithTemplate())).urlOf(database);
  };
  return {
    kind: 'postgres',
    make: async (content) => {
      const name = `berth_${randomBytes(8).toString('hex')}`;
      const template = content === 'migrated' ? TEMPLATE : 'template0';
      await administer(await urlOf('postgres'), `create database ${name} template ${template} strategy file_copy`);
      return { url: await urlOf(name) };
    },
    remove: async (place) => {
      if (!('url' in place)) return;
      await administer(await urlOf('postgres'), `drop database ${new URL(place.url).pathname.slice(1)} with (force)`);
    },
    close: async () => (await own)?.stop(),
  };
}

const groundsOf: Record<EngineKind, () => Grounds> = { sqlite: sqliteGrounds, postgres: postgresGrounds };

/** Runs `tests` once for each engine. */
export function onBothEngines(name: string, tests: (open: Open) => void): void {
  for (const kind of ['sqlite', 'postgres'] as const) onEngine(kind, name, tests);
}

/** Runs `tests` on one engine: for promises that only it can keep. */
export function onEngine(kind: EngineKind, name: string, tests: (open: Open) => void): void {
  describe(`${name} on ${kind}`, () => {
    const grounds = groundsOf[kind]();
    const stores = new Map<Store, Place>();
    const places = new Set<Place>();
    const make = async (content: 'migrated' | 'empty'): Promise<Place> => {
      const place = await grounds.make(content);
      places.add(place);
      return place;
    };
    const openAt = async (place: Place): Promise<Store> => {
      const store = await openStore({ ...place, log: quietLog });
      stores.set(store, place);
      return store;
    };
    const open: Open = Object.assign(async () => openAt(await make('migrated')), {
      kind,
      again: async (store: Store) => {
        const place = stores.get(store);
        if (!place) throw new Error('open.again takes a store that this test has opened');
        return openAt(place);
      },
      empty: () => make('empty'),
    });
    afterEach(async () => {
      await Promise.all([...stores.keys()].map((store) => store.stop()));
      stores.clear();
      for (const place of places) await grounds.remove(place);
      places.clear();
    });
    afterAll(() => grounds.close());
    tests(open);
  });
}

/** An empty SQLite store in a temporary folder, for tests to which the engine does not matter. `remove` stops it, too. */
export async function openTempStore(): Promise<{ store: Store; file: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-store-'));
  const file = join(folder, 'berth.db');
  const store = await openStore({ file, log: quietLog });
  return {
    store,
    file,
    remove: async () => {
      await store.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
