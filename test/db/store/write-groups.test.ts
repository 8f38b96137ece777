/** A write is durable when answered, fails alone, and is never half done. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { GroupCommit, systemScheduler } from '../../../src/store/db/group-commit.ts';
import type { GroupStatements, StoreScheduler } from '../../../src/store/db/group-commit.ts';
import { openStore, migrations } from '../../../src/store/open.ts';
import { LONG_LOG_BYTES } from '../../../src/store/db/checkpoint.ts';
import { openSqlite } from '../../../src/store/db/sqlite.ts';
import { isForeignKeyViolation, isUniqueViolation } from '../../../src/store/db/errors.ts';
import type { Db, Store } from '../../../src/store/store.ts';
import { onBothEngines, onEngine, openTempStore, quietLog, recordingLog } from '../../fixtures/store.ts';
import { accountRow } from './rows.ts';

/** No group closes by its duration. */
const unhurried: StoreScheduler = { ...systemScheduler, elapsed: () => 0 };

const insert = (tx: Db, id: string) => tx.insertInto('account').values(accountRow({ id })).execute();
const ids = async (store: Store): Promise<string[]> =>
  (await store.read.selectFrom('account').select('id').orderBy('id').execute()).map(({ id }) => id);
const bump = (tx: Db) =>
  tx
    .updateTable('account')
    .set((eb) => ({ version: eb('version', '+', 1) }))
    .where('id', '=', 'counter')
    .returning('version')
    .executeTakeFirstOrThrow();

onBothEngines('write', { postgres: 'always' }, (open) => {
  test('a throwing work leaves nothing, and its neighbors intact', async () => {
    const store = await open();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 150 }, (_, i) =>
        store.write(async (tx) => {
          await insert(tx, `a${i}`);
          if (i % 3 === 0) throw new Error(`undo ${i}`);
          await insert(tx, `b${i}`);
          return i;
        }),
      ),
    );
    for (const [i, outcome] of outcomes.entries()) {
      if (i % 3 === 0) expect(outcome).toMatchObject({ status: 'rejected', reason: { message: `undo ${i}` } });
      else expect(outcome).toEqual({ status: 'fulfilled', value: i });
    }
    const committed = outcomes.flatMap((_, i) => (i % 3 === 0 ? [] : [`a${i}`, `b${i}`]));
    expect((await ids(store)).sort()).toEqual(committed.sort());
  });

  test('a failed statement fails its work, with the kind of failure', async () => {
    const store = await open();
    const outcomes = await Promise.allSettled([
      store.write((tx) => insert(tx, 'same')),
      store.write(async (tx) => {
        await insert(tx, 'other');
        await insert(tx, 'other');
      }),
      store.write((tx) =>
        tx
          .insertInto('session')
          .values({ id: 's', accountId: 'nobody', createdAtMs: 1, expiresAtMs: 1, revokedAtMs: null })
          .execute(),
      ),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    const reasons = outcomes.map((outcome): unknown => (outcome.status === 'rejected' ? outcome.reason : null));
    expect(reasons.map(isUniqueViolation)).toEqual([false, true, false]);
    expect(reasons.map(isForeignKeyViolation)).toEqual([false, false, true]);
    expect(await ids(store)).toEqual(['same']);
  });

  test('concurrent writers of one row lose no change', async () => {
    const store = await open();
    await store.write((tx) => insert(tx, 'counter'));
    const seen = await Promise.all(
      Array.from({ length: 200 }, () => store.write(async (tx) => (await bump(tx)).version)),
    );
    expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1));
    expect(await store.versionOf('counter')).toBe(200);
    expect(await store.versionOf('nobody')).toBe(0);
  });

  test('a reader sees all answered and no uncommitted writes', async () => {
    const store = await open();
    await store.write((tx) => insert(tx, 'counter'));
    await store.write(async (tx) => {
      await bump(tx);
      expect(await store.versionOf('counter')).toBe(0);
      expect((await store.read.selectFrom('account').select('version').executeTakeFirstOrThrow()).version).toBe(0);
    });
    expect(await store.versionOf('counter')).toBe(1);
  });

  test('refuses a transaction after its work has ended', async () => {
    const store = await open();
    let leaked: Db | undefined;
    await store.write(async (tx) => {
      leaked = tx;
      await insert(tx, 'a');
    });
    if (open.kind === 'sqlite') await expect(insert(leaked ?? store.read, 'b')).rejects.toThrow(/has ended/);
    expect(await ids(store)).toEqual(['a']);
  });

  test('commits queued writes when stopped, and refuses later ones', async () => {
    const store = await open();
    const queued = Array.from({ length: 100 }, (_, i) => store.write((tx) => insert(tx, `a${i}`)));
    const stopped = store.stop();
    await Promise.all(queued);
    await stopped;
    await expect(store.write((tx) => insert(tx, 'late'))).rejects.toThrow('The store has stopped');
    await expect(store.ping()).rejects.toThrow('The store has stopped');
    expect(await ids(await open.again(store))).toHaveLength(100);
  });
});

onEngine('sqlite', 'write groups', (open) => {
  test('writes of one turn share a commit, at most 64', async () => {
    const { group, commits } = scripted();
    await Promise.all(Array.from({ length: 130 }, (_, i) => group.write(async () => i)));
    expect(commits.reduce((sum, works) => sum + works, 0)).toBe(130);
    expect(Math.max(...commits)).toBeLessThanOrEqual(64);
    expect(commits.length).toBeLessThan(130 / 4);
  });

  test('the next group, and the stop, wait for the pause after a commit', async () => {
    const paused = Promise.withResolvers<void>();
    const { group, said, commits } = scripted(
      {},
      { pauseAfter: () => (commits.length === 1 ? paused.promise : undefined) },
    );
    await group.write(async () => {});
    const second = group.write(async () => {});
    const stopped = group.stop().then(() => said.push('stopped'));
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
    const once = ['begin', 'savepoint', 'release', 'commit'];
    expect(said).toEqual(once);
    paused.resolve();
    await Promise.all([second, stopped]);
    expect(said).toEqual([...once, ...once, 'stopped']);
  });

  test('settles all promises of a group in the turn of its commit, failures too', async () => {
    const { group, said } = scripted();
    const all = ['a', 'b', 'c'].map((name) =>
      group
        .write(async () => {
          if (name === 'b') throw new Error('no');
        })
        .then(
          () => said.push(`${name} kept`),
          () => said.push(`${name} lost`),
        ),
    );
    await Promise.all(all);
    expect(said).toEqual([
      'begin',
      'savepoint',
      'release',
      'savepoint',
      'rollback to',
      'release',
      'savepoint',
      'release',
      'commit',
      'a kept',
      'b lost',
      'c kept',
    ]);
  });

  test('a failed commit rejects its whole group, and the next group runs', async () => {
    const database = await open.empty();
    if (!('file' in database)) throw new Error('SQLite lies in a file');
    const store = await openSqlite({ ...database, migrations, log: quietLog, scheduler: unhurried });
    onTestFinished(() => store.stop());
    const outcomes = await Promise.allSettled([
      store.write((tx) => insert(tx, 'a')),
      store.write(async (tx) => {
        await sql`pragma defer_foreign_keys = on`.execute(tx);
        await tx
          .insertInto('session')
          .values({ id: 's', accountId: 'nobody', createdAtMs: 1, expiresAtMs: 1, revokedAtMs: null })
          .execute();
      }),
      store.write((tx) => insert(tx, 'b')),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    await store.write((tx) => insert(tx, 'c'));
    expect(await ids(store)).toEqual(['c']);
  });

  test('a full disk fails only writes made meanwhile', async () => {
    const store = await open();
    const limit = (pages: number) => store.write((tx) => sql`pragma max_page_count = ${sql.lit(pages)}`.execute(tx));
    await limit(1);
    const tooMuch = store.write((tx) =>
      tx
        .insertInto('setting')
        .values({ name: 'big', value: 'x'.repeat(1_000_000) })
        .execute(),
    );
    await expect(tooMuch).rejects.toMatchObject({ code: 'storage_full' });
    await limit(1_000_000);
    await store.write((tx) => insert(tx, 'a'));
    expect(await ids(store)).toEqual(['a']);
    expect(await store.read.selectFrom('setting').selectAll().execute()).toEqual([]);
    await store.ping();
  });

  test('runs the works of a group again while a full disk has a reserve, then refuses them', async () => {
    const full = Object.assign(new Error('database or disk is full'), { errcode: 13 });
    const { group, commits, heal } = scripted({ commit: full }, { releases: [true, true] });
    let runs = 0;
    const work = async (): Promise<string> => {
      runs += 1;
      if (runs === 3) heal();
      return 'stored';
    };
    expect(await group.write(work)).toBe('stored');
    expect([runs, commits]).toEqual([3, [1]]);
    const refused = scripted({ commit: full }, { releases: [true] }).group;
    const outcomes = await Promise.allSettled([refused.write(async () => 'a'), refused.write(async () => 'b')]);
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'storage_full' } });
  });

  test('runs again only the work whose own statement met the full disk', async () => {
    const full = Object.assign(new Error('database or disk is full'), { errcode: 13 });
    const { group, commits } = scripted({}, { releases: [true] });
    const runs = { small: 0, large: 0 };
    const small = group.write(async () => (runs.small += 1));
    const large = group.write(async () => {
      runs.large += 1;
      if (runs.large === 1) throw full;
    });
    await Promise.all([small, large]);
    expect([runs, commits]).toEqual([{ small: 1, large: 2 }, [2, 1]]);
  });

  test('goes on after the index of the log could not grow on a full disk', async () => {
    const { group, heal } = scripted({ commit: Object.assign(new Error('disk I/O error'), { errcode: 4874 }) });
    await expect(group.write(async () => {})).rejects.toMatchObject({ code: 'storage_full' });
    heal();
    await group.write(async () => {});
  });

  test('refuses every write after a failed fsync, and retries none', async () => {
    const failure = Object.assign(new Error('disk I/O error'), { errcode: 1034 });
    const { group, said, log } = scripted({ commit: failure });
    const first = await Promise.allSettled([group.write(async () => 'a'), group.write(async () => 'b')]);
    expect(first).toEqual([
      { status: 'rejected', reason: failure },
      { status: 'rejected', reason: failure },
    ]);
    const before = said.length;
    await expect(group.write(async () => 'c')).rejects.toThrow(/disk failed .* start Berth again/s);
    expect(said).toHaveLength(before);
    expect(group.broken?.cause).toBe(failure);
    expect(log.lines.map(({ level }) => level)).toEqual(['error']);
  });

  test('refuses writes queued behind a failed fsync with the same message', async () => {
    const { group } = scripted({ commit: Object.assign(new Error('disk I/O error'), { errcode: 1034 }) });
    const outcomes = await Promise.allSettled(Array.from({ length: 70 }, () => group.write(async () => 'x')));
    const words = outcomes.map((outcome) => (outcome.status === 'rejected' ? String(outcome.reason.message) : 'kept'));
    expect(words.slice(64)).toEqual(
      Array.from({ length: 6 }, () => expect.stringMatching(/Berth writes nothing more/)),
    );
  });

  test('an error that makes SQLite roll back rejects the group; later writes form the next', async () => {
    const failure = Object.assign(new Error('database is locked'), { errcode: 5 });
    const { group, said, end } = scripted();
    const outcomes = await Promise.allSettled([
      group.write(async () => 'before'),
      group.write(async () => {
        end();
        throw failure;
      }),
      group.write(async () => 'after'),
    ]);
    expect(outcomes).toEqual([
      { status: 'rejected', reason: failure },
      { status: 'rejected', reason: failure },
      { status: 'fulfilled', value: 'after' },
    ]);
    expect(said.filter((word) => word === 'commit')).toHaveLength(1);
    expect(group.broken).toBeUndefined();
  });

  test("refuses a write that can't begin, and runs the next", async () => {
    const failure = Object.assign(new Error('database is locked'), { errcode: 5 });
    const { group, heal } = scripted({ begin: failure });
    await expect(group.write(async () => 'a')).rejects.toBe(failure);
    heal();
    await expect(group.write(async () => 'b')).resolves.toBe('b');
  });

  test('answered writes are in the file for a second opening', async () => {
    const store = await open();
    await Promise.all(Array.from({ length: 3_000 }, (_, i) => store.write((tx) => insert(tx, `a${i}`))));
    await store.stop();
    expect(await ids(await open.again(store))).toHaveLength(3_000);
  });

  test('answered writes survive a process killed while writing', async () => {
    const database = await open.empty();
    const child = spawn(process.execPath, ['--input-type=module', '-e', writeForever, JSON.stringify(database)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    const answered: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      answered.push(line);
      if (answered.length === 2_000) child.kill('SIGKILL');
    }
    expect(await ended).toEqual([null, 'SIGKILL']);
    const store = await openStore({ ...database, log: quietLog });
    const committed = new Set(
      (await store.read.selectFrom('setting').select('name').execute()).map(({ name }) => name),
    );
    await store.stop();
    expect(answered.filter((name) => !committed.has(name))).toEqual([]);
  });

  test('keeps the write-ahead log short under large writes without a pause', async () => {
    const database = await open.empty();
    if (!('file' in database)) throw new Error('SQLite lies in a file');
    const scheduler: StoreScheduler = { ...systemScheduler, threads: false, after: () => () => {} };
    const store = await openSqlite({ ...database, migrations, log: quietLog, scheduler });
    onTestFinished(() => store.stop());
    const value = 'x'.repeat(4_000_000);
    for (let n = 0; n < 12; n++)
      await store.write((tx) =>
        tx
          .insertInto('setting')
          .values({ name: `n${n}`, value })
          .execute(),
      );
    expect(statSync(`${database.file}-wal`).size).toBeLessThan(LONG_LOG_BYTES + 2 * value.length);
  });

  test('creates the file readable by its owner alone', async () => {
    const { file, remove } = await openTempStore();
    try {
      const modes = ['', '-wal', '-shm'].map((suffix) => statSync(`${file}${suffix}`).mode & 0o777);
      expect(modes).toEqual([0o600, 0o600, 0o600]);
    } finally {
      await remove();
    }
  });
});

const openModule = new URL('../../../src/store/open.ts', import.meta.url).href;
/** 32 writers; prints each name once its write was answered. */
const writeForever = `
  const { openStore } = await import(${JSON.stringify(openModule)});
  const log = { info: () => {}, warn: () => {}, error: () => {} };
  const store = await openStore({ ...JSON.parse(process.argv[1]), log });
  for (let writer = 0; writer < 32; writer++) void (async () => {
    for (let n = 0; ; n++) {
      const name = writer + '-' + n;
      await store.write((tx) => tx.insertInto('setting').values({ name, value: 'x'.repeat(500) }).execute());
      process.stdout.write(name + '\\n');
    }
  })();`;

/** Group over recorded statements that fail on demand. */
function scripted(
  failing: Partial<Record<'begin' | 'commit', Error>> = {},
  {
    pauseAfter = () => {},
    releases = [],
  }: { pauseAfter?: (works: number) => Promise<void> | void; releases?: boolean[] } = {},
) {
  const said: string[] = [];
  const commits: number[] = [];
  const log = recordingLog();
  let failures = failing;
  let isOpen = false;
  const say = (word: string) => () => void said.push(word);
  const statements: GroupStatements = {
    begin: () => {
      say('begin')();
      if (failures.begin) throw failures.begin;
      isOpen = true;
    },
    savepoint: say('savepoint'),
    release: say('release'),
    rollbackTo: say('rollback to'),
    commit: () => {
      say('commit')();
      if (failures.commit) throw failures.commit;
      isOpen = false;
    },
    rollback: () => {
      say('rollback')();
      isOpen = false;
    },
    isOpen: () => isOpen,
  };
  const group = new GroupCommit<null>({
    statements,
    openScope: () => ({ tx: null, end: () => {} }),
    onCommit: (works) => {
      commits.push(works);
      return pauseAfter(works);
    },
    log,
    releaseSpace: () => releases.shift() ?? false,
    scheduler: unhurried,
  });
  return { group, said, commits, log, end: () => (isOpen = false), heal: () => (failures = {}) };
}
