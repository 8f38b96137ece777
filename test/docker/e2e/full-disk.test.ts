/**
 * An engine of the test's own on a small, full disk: DiskFull, then recovery once space is free.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readRecipe, recipeRef } from '../../../src/engines/docker/image/recipes.ts';
import { makeRegistry, type Registry } from '../engines/docker-registry.ts';
import { startOwnEngine, type OwnEngine } from './test-engine.ts';
import { startInside, type ServerInside } from './in-process-server.ts';

const run = promisify(execFile);
const DISK_MB = 64;
const PIECE = Buffer.alloc(1_000_000);
const said = "the host's disk is full; ask the operator to free space";

let disk: string;
let engine: OwnEngine;
let inside: ServerInside;
let registry: Registry;
beforeAll(async () => {
  disk = await mkdtemp(join(tmpdir(), 'berth-disk-'));
  await run('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MB}m`, 'tmpfs', disk]);
  engine = await startOwnEngine({ under: disk });
  // Imports a tiny image under the default image's name, so that nothing is built.
  await engine.importTiny(recipeRef(await readRecipe(join(import.meta.dirname, '../../../images/notebook'))));
  registry = await makeRegistry();
  inside = await startInside({
    nodePorts: '31900-31919',
    limits: { maxAttempts: 2, backOffBaseMs: 500, engineRetryMs: 200, stopGraceMs: 1_000, imageDeadlineMs: 3_000 },
    engineAt: engine.dockerHost,
    engine: engine.docker,
  });
});
afterAll(async () => {
  try {
    await freeSpace();
    await inside?.stop();
  } finally {
    await engine?.stop();
    await registry?.stop();
    await run('umount', [disk]);
    await rm(disk, { recursive: true });
  }
});

const filling = (): string => join(disk, 'filling');
const freeSpace = (): Promise<void> => rm(filling(), { force: true });

async function fill(): Promise<void> {
  const file = await open(filling(), 'a');
  try {
    for (;;) await file.appendFile(PIECE);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
  } finally {
    await file.close();
  }
}

test('shows DiskFull, then fails permanently, without space for a container; a start succeeds once there is space', async () => {
  await fill();
  // Berth's container for collecting tools may exist and will free its space; no other can be made.
  await expect.poll(() => engine.docker.listContainers({ all: true }), { timeout: 20_000 }).toEqual([]);
  await fill();
  const id = await inside.launch({});
  const { instanceRuntimeInfo: now } = await inside.sees(id, { diagnosisReason: 'DiskFull' });
  expect(now).toMatchObject({ phase: 'CreateContainer', diagnosisMessage: said });
  await inside.givenUp(id, { status: 'InitializationFailed', reason: 'DiskFull' });
  await freeSpace();
  await inside.client.start({ instanceId: id });
  await inside.sees(id, { status: 'Running', diagnosisReason: '' });
  await inside.removeAll(id);
});

test('shows DiskFull during retries and at the permanent failure without space for an image', async () => {
  await fill();
  const id = await inside.launch({ imageId: await inside.offer(registry.imageRef) });
  const { instanceRuntimeInfo: now } = await inside.sees(id, { diagnosisReason: 'DiskFull' });
  expect(now).toMatchObject({ status: 'Starting', phase: 'DownloadImage' });
  expect(now.diagnosisMessage).toBe(`${registry.imageRef}: ${said}`);
  await inside.givenUp(id, { status: 'StartingFailed', reason: 'DiskFull' });
  await freeSpace();
  await inside.removeAll(id);
});
