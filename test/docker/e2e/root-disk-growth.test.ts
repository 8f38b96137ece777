/**
 * The engine's data, the pool and the database on one small file system, as on most hosts: an
 * instance fills it while another account writes to a volume.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { diagnoses } from '../../../src/domain/compute/instance-states.ts';
import { readRecipe, recipeRef } from '../../../src/engines/docker/image/recipes.ts';
import { mountExt4, type MountedFileSystem } from '../storage/file-systems.ts';
import { shell } from './container-shell.ts';
import { startInside, type ServerInside } from './in-process-server.ts';
import { startOwnEngine, type OwnEngine } from './test-engine.ts';

const MIB = 1024 ** 2;

let host: MountedFileSystem;
let engine: OwnEngine;
let inside: ServerInside;
beforeAll(async () => {
  host = await mountExt4(3);
  engine = await startOwnEngine({ under: host.folder });
  await engine.importTiny(recipeRef(await readRecipe(join(import.meta.dirname, '../../../images/notebook'))));
  inside = await startInside({
    nodePorts: '32320-32329',
    limits: { stopGraceMs: 1_000 },
    engineAt: engine.dockerHost,
    engine: engine.docker,
    under: host.folder,
    settings: {
      BERTH_POOL: 'size=2',
      BERTH_DISK_OVERCOMMIT: '1000',
      BERTH_DISK_RESERVE_PERCENT: '5',
    },
  });
});
afterAll(async () => {
  try {
    await inside?.stop();
  } finally {
    await engine?.stop();
    await host?.remove();
  }
});

const volume = async (): Promise<string> => {
  const { region } = inside.server.example;
  const made = await inside.client.createVolume({ name: 'kept', sizeGB: 1, region, volumeType: 'filesystem' });
  return made.volume.id;
};

test('a root disk that grows without bound fails no write to a volume, and is stopped with the reason', async () => {
  const id = await volume();
  const mount = { mountPath: '/root/kept', remoteStorageName: 'kept', remoteStorageId: id, type: 'filesystem' };
  const victim = await inside.launch({ remoteStorages: [mount] });
  const grower = await inside.launch({});
  for (const one of [victim, grower]) await inside.sees(one, { status: 'Running' });

  const growing = shell(grower, 'exec dd if=/dev/zero of=/grows bs=1M', engine.docker).catch(() => '');
  await shell(victim, 'dd if=/dev/zero of=/root/kept/first bs=1M count=500 conv=fsync', engine.docker);
  await inside.sees(grower, {
    status: 'Stopped',
    diagnosisReason: 'HostNearlyFull',
    diagnosisMessage: diagnoses.HostNearlyFull,
  });
  await growing;
  await shell(victim, 'dd if=/dev/zero of=/root/kept/second bs=1M count=480 conv=fsync', engine.docker);
  const sizes = await shell(victim, 'cd /root/kept; stat -c %s first second', engine.docker);
  expect(sizes.split('\n').slice(0, 2)).toEqual([String(500 * MIB), String(480 * MIB)]);
  await inside.sees(victim, { status: 'Running', diagnosisReason: '' });

  await inside.client.start({ instanceId: grower });
  await inside.sees(grower, { status: 'Running' });
  await shell(grower, 'rm /grows', engine.docker);
  await inside.removeAll(victim, grower);
});
