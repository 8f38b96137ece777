import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { regionId, userId } from '../../../src/domain/kernel/ids.ts';
import type { PoolName } from '../../../src/domain/storage/disk.ts';
import { makePools } from '../../../src/main/region-pools.ts';
import type { PoolConfig } from '../../../src/main/disk-config.ts';
import { insertDisk } from '../../../src/store/tables/disks.ts';
import { savePool } from '../../../src/store/tables/pools.ts';
import { onEngine } from '../../fixtures/store.ts';
import { run } from '../../conformance/storage.ts';

const none: PoolConfig = { path: null, engine: null, sizeGB: null, overcommit: 1, thick: null };
const unset: Record<PoolName, PoolConfig | null> = { default: null, filesystem: null, highspeedstorage: null };

onEngine('sqlite', 'the pools of a server', (open) => {
  async function makeFixture() {
    const dataFolder = await mkdtemp(join(tmpdir(), 'berth-pools-'));
    onTestFinished(() => rm(dataFolder, { recursive: true, force: true }));
    const store = await open();
    const make = (pools: Partial<typeof unset> = {}, installation = 'ours', diskReserveShare: number | null = null) =>
      makePools({
        config: {
          dataFolder,
          engine: 'docker',
          pools: { ...unset, ...pools },
          diskOvercommit: 1,
          diskReserveShare,
          accountPoolShare: 1,
        },
        store,
        installation,
        log: pino({ level: 'silent' }),
      });
    return { dataFolder, store, make };
  }
  const onlyFolders = { default: { ...none, engine: 'directory' as const } };
  const id = { kind: 'volume', id: 'one' } as const;
  const soon = () => AbortSignal.timeout(10_000);

  test.each([
    [null, 'begins'],
    [1, 'refuses'],
  ] as const)('with a reserve of %s, a pool %s a copy', async (reserve, outcome) => {
    const { make } = await makeFixture();
    const [pool] = await make(onlyFolders, 'ours', reserve);
    await pool?.storage.create(id, 1, soon());
    const copied = pool?.storage.create({ ...id, id: 'copy' }, 1, soon(), id);
    if (outcome === 'begins') await copied;
    else await expect(copied).rejects.toMatchObject({ kind: 'full' });
  });

  test('without configuration one pool serves all types, with hard limits where the host supports them', async () => {
    const { make } = await makeFixture();
    const pools = await make();
    expect(pools).toMatchObject([{ name: 'default', sizeGB: null, overcommit: 1 }]);
    const sizeLimit = process.getuid?.() === 0 ? 'hard' : 'soft';
    expect(pools[0]?.storage.capabilities()).toMatchObject({ sizeLimit });
  });

  test('keeps the storage engine its disks were made by, and refuses another', async () => {
    const { make } = await makeFixture();
    await make(onlyFolders);
    expect((await make())[0]?.storage.capabilities()).toMatchObject({ sizeLimit: 'soft' });
    await expect(make({ default: { ...none, engine: 'image-file' } })).rejects.toThrow(/set engine=directory/);
  });

  test('a volume type gets a path of its own', async () => {
    const { make, dataFolder } = await makeFixture();
    const fast = join(dataFolder, 'fast');
    const highspeedstorage = { ...none, path: fast, engine: 'directory' as const, sizeGB: 50 };
    const pools = await make({ ...onlyFolders, highspeedstorage });
    expect(pools.map(({ name, sizeGB }) => [name, sizeGB])).toEqual([
      ['default', null],
      ['highspeedstorage', 50],
    ]);
    await pools[1]?.storage.create(id, 1, soon());
    expect(await pools[1]?.storage.mount(id)).toMatch(fast);
  });

  test('refuses to start when a pool with disks is no longer configured, and names the setting', async () => {
    const { make, store } = await makeFixture();
    await make({ ...onlyFolders, filesystem: { ...none, engine: 'directory', sizeGB: 10 } });
    await store.write(async (tx) => {
      await savePool(tx, { regionId: regionId('here'), name: 'filesystem' }, 10);
      const size = { sizeGB: 1, promisedGB: 1, bestEffortGB: 0 };
      const disk = { ...id, ...size, regionId: regionId('here'), pool: 'filesystem', ownerId: userId('ann') } as const;
      await insertDisk(tx, disk, { diskOvercommit: 1 });
    });
    await expect(make(onlyFolders)).rejects.toThrow(/set BERTH_POOL_FILESYSTEM as before/);
  });

  test('a missing path is not replaced by an empty one, so no disk reads as lost', async () => {
    const { make, dataFolder } = await makeFixture();
    const [pool] = await make(onlyFolders);
    await pool?.storage.create(id, 1, soon());
    await rename(join(dataFolder, 'disks'), join(dataFolder, 'elsewhere'));
    const [again] = await make(onlyFolders);
    expect(await again?.storage.observe(id)).toMatchObject({ kind: 'unknown' });
    await expect(again?.storage.create({ ...id, id: 'two' }, 1, soon())).rejects.toThrow(
      /mount their file system there/,
    );
  });

  test('refuses two pools that each use a whole file system, and resolves a symbolic link', async () => {
    const { make, dataFolder } = await makeFixture();
    const filesystem = { ...none, engine: 'directory' as const };
    await expect(make({ ...onlyFolders, filesystem })).rejects.toThrow(/set size=<GB> in BERTH_POOL_FILESYSTEM/);
    await mkdir(join(dataFolder, 'real'));
    await symlink(join(dataFolder, 'real'), join(dataFolder, 'linked'));
    const linked = { ...filesystem, path: join(dataFolder, 'linked'), sizeGB: 5 };
    const [, pool] = await make({ ...onlyFolders, highspeedstorage: linked });
    await pool?.storage.create(id, 1, soon());
    expect(await pool?.storage.mount(id)).toMatch(join(dataFolder, 'real'));
  });

  test('thaws writers that a dead server left frozen, also through a symbolic link', async () => {
    const { make, dataFolder } = await makeFixture();
    await mkdir(join(dataFolder, 'real'));
    await symlink(join(dataFolder, 'real'), join(dataFolder, 'linked'));
    const highspeedstorage = { ...none, path: join(dataFolder, 'linked'), engine: 'image-file' as const, sizeGB: 5 };
    const [, pool] = await make({ ...onlyFolders, highspeedstorage });
    if (!pool) throw new Error('there is no such pool');
    await pool.storage.create(id, 1, soon());
    const folder = await pool.storage.mount(id);
    const thaw = () => run('fsfreeze', ['--unfreeze', dirname(folder)]).catch(() => {});
    onTestFinished(async () => {
      await thaw();
      await pool.storage.destroy(id);
    });
    await run('fsfreeze', ['--freeze', dirname(folder)]);
    const writing = writeFile(join(folder, 'file'), 'x', { flush: true }).then(() => 'written');
    await make({ ...onlyFolders, highspeedstorage });
    const late = new Promise((resolve) => setTimeout(resolve, 5_000, 'still stopped'));
    expect(await Promise.race([writing, late])).toBe('written');
  });

  test('volumes get all their blocks where the host supports it, unless the operator says otherwise', async () => {
    const { make } = await makeFixture();
    const held = async (thick: boolean | null, volumeId: string): Promise<number> => {
      const [pool] = await make({ default: { ...none, engine: 'image-file', thick } });
      const disk = { kind: 'volume', id: volumeId, promisedGB: 1 } as const;
      await pool?.storage.create(disk, 1, soon());
      const allocation = await pool?.storage.allocation(disk);
      await pool?.storage.destroy(disk);
      return (allocation?.heldBytes ?? 0) / (allocation?.maxBytes ?? 1);
    };
    expect(await held(null, 'one')).toBeGreaterThanOrEqual(1);
    expect(await held(true, 'two')).toBeGreaterThanOrEqual(1);
    expect(await held(false, 'three')).toBeLessThan(0.1);
  });

  test("leaves another installation's path alone", async () => {
    const { make } = await makeFixture();
    const other = await makeFixture();
    await other.make(onlyFolders, 'theirs');
    const filesystem = { ...none, path: join(other.dataFolder, 'disks'), engine: 'directory' as const };
    await expect(make({ ...onlyFolders, filesystem })).rejects.toThrow(/another installation, theirs/);
  });

  test("refuses image files with the reason, or uses folders, on a host that can't mount them", async () => {
    const { make, dataFolder } = await makeFixture();
    // A path where no file system can be made.
    await mkdir(join(dataFolder, 'disks'));
    await writeFile(join(dataFolder, 'disks', 'volume'), '');
    await expect(make({ default: { ...none, engine: 'image-file' } })).rejects.toThrow(/does not work here/);
    expect((await make())[0]?.storage.capabilities()).toMatchObject({ sizeLimit: 'soft' });
  });
});
