/** `npm run image`: the notebook image for other machines. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isLong } from '../../fixtures/level.ts';
import { docker } from '../../fixtures/server-process.ts';
import { startDebianRegistries, type DebianRegistries } from '../engines/debian-registry.ts';

const run = promisify(execFile);
const SCRIPT = path.join(import.meta.dirname, '../../../scripts/image.mjs');
const image = (...args: string[]) => run(process.execPath, [SCRIPT, ...args]);

let registries: DebianRegistries;
beforeAll(async () => {
  registries = await startDebianRegistries();
});
afterAll(() => registries?.stop());

test('refuses what is no name in a registry', async () => {
  for (const [args, why] of [
    [['berth.local/notebook:1'], 'berth.local is not a registry'],
    [[`${registries.open}/lab/notebook@sha256:${'0'.repeat(64)}`], 'has a digest, which the registry makes'],
    [[], 'One name of an image is needed'],
    [[`${registries.open}/lab/notebook:1`, '--variant', 'large'], '--variant is "large"; it must be small or pytorch'],
  ] as const)
    await expect(image(...args)).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining(why) });
});

if (isLong)
  test('pushes the image to a registry', async () => {
    const ref = `${registries.open}/lab/notebook:1`;
    await image(ref, '--variant', 'small');
    const answer = await fetch(`http://${registries.open}/v2/lab/notebook/tags/list`);
    expect(await answer.json()).toEqual({ name: 'lab/notebook', tags: ['1'] });
    await docker.getImage(ref).remove();
  });
