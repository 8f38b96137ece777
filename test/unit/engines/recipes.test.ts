/**
 * Recipes: parsing, refs, generated commands, progress and faults of a build. start-script.test.ts
 * runs a real build.
 */
import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addBuildLine, describeFailure, firstBuildState } from '../../../src/engines/docker/image/build-progress.ts';
import { buildContext } from '../../../src/engines/docker/image/build.ts';
import {
  dockerfile,
  importChanges,
  mmdebstrapArguments,
  readRecipe,
  recipeRef,
} from '../../../src/engines/docker/image/recipes.ts';

const shipped = new URL('../../../images/notebook', import.meta.url).pathname;
let folder: string;
beforeAll(async () => {
  folder = join(await mkdtemp(join(tmpdir(), 'recipe-test-')), 'notebook');
  await cp(shipped, folder, { recursive: true });
});
afterAll(() => rm(join(folder, '..'), { recursive: true }));

describe('a recipe', () => {
  it('has a ref that depends on the content of every file and not on the folder', async () => {
    const before = recipeRef(await readRecipe(folder));
    expect(before).toMatch(/^berth\.local\/notebook:[0-9a-f]{12}$/);
    expect(recipeRef(await readRecipe(shipped))).toBe(before);
    await writeFile(join(folder, 'extra.txt'), 'more');
    expect(recipeRef(await readRecipe(folder))).not.toBe(before);
    await rm(join(folder, 'extra.txt'));
    expect(recipeRef(await readRecipe(folder))).toBe(before);
  });

  it('has variants without some of its packages, under names of their own', async () => {
    const [whole, small] = [await readRecipe(shipped), await readRecipe(shipped, 'notebook-small')];
    expect(recipeRef(small)).toBe(recipeRef(whole).replace('notebook:', 'notebook-small:'));
    expect(whole.packages).toEqual(expect.arrayContaining(['jupyterlab', 'python3-numpy', 'gcc']));
    expect(small.packages).toContain('jupyterlab');
    expect(small.packages).not.toEqual(expect.arrayContaining(['python3-numpy']));
    expect(small.packages.length).toBe(whole.packages.length - (whole.variants['notebook-small']?.without.length ?? 0));
    expect(mmdebstrapArguments(small, shipped, 'root').join(' ')).not.toMatch(/numpy|gcc/);
    expect(dockerfile(small)).not.toMatch(/python3-numpy/);
    await expect(readRecipe(shipped, 'notebook-tiny')).rejects.toThrow(/no variant notebook-tiny/);
  });

  it('is refused with the path of the invalid member', async () => {
    const bad = join(folder, '..', 'bad');
    await cp(shipped, bad, { recursive: true });
    await writeFile(
      join(bad, 'recipe.json'),
      JSON.stringify({ name: 'x', suite: 'trixie', sources: ['deb a b c'], fallbackBase: 'b', packages: ['; rm'] }),
    );
    await expect(readRecipe(bad)).rejects.toThrow(/packages\[0\]/);
    await rm(join(bad, 'recipe.json'));
    await expect(readRecipe(bad)).rejects.toThrow(/no recipe\.json/);
  });

  it('quotes values with quotes and spaces in Dockerfile lines', async () => {
    const recipe = {
      ...(await readRecipe(folder)),
      environment: { A: 'b "c" d' },
      labels: { 'x.y': 'z' },
      command: ['bash', '-l'],
    };
    expect(importChanges(recipe)).toEqual(['ENV A="b \\"c\\" d"', 'LABEL x.y="z"', 'CMD ["bash","-l"]']);
  });

  it('passes hooks to mmdebstrap as quoted paths, and never turns off verification', async () => {
    const args = mmdebstrapArguments(await readRecipe(folder), "/it's here", 'root');
    expect(args).toContain(String.raw`--essential-hook=sh '/it'\''s here/prepare.sh' "$1"`);
    expect(args.slice(-4)[0]).toBe('-');
    expect(args.join(' ')).not.toMatch(/trusted=yes|AllowUnauthenticated|allow-insecure|no-check-gpg/i);
  });

  it('becomes a single layer when the engine builds it', async () => {
    const text = dockerfile(await readRecipe(folder));
    expect(text.match(/^RUN /gm)).toHaveLength(1);
    expect(text).toMatch(/^FROM debian:trixie-slim\n/);
    expect(text).toMatch(/jupyterlab/);
  });
});

describe('the progress of a build', () => {
  const play = (lines: string[]) => lines.reduce(addBuildLine, firstBuildState);

  it('never decreases, and ends a stage where the next begins', () => {
    const packages = Array.from({ length: 40 }, (_, i) => [
      `Unpacking p${i} (1) ...`,
      `Setting up p${i} (1) ...`,
    ]).flat();
    const lines = [
      'I: downloading packages with apt...',
      'I: extracting archives...',
      'I: installing essential packages...',
      'Setting up libc6:amd64 (2.41) ...',
      'I: installing remaining packages inside the chroot...',
      '0 upgraded, 40 newly installed, 0 to remove and 0 not upgraded.',
      ...packages,
      'Setting up one-more (1) ...',
      'I: running --customize-hook in shell: ...',
      'I: creating tarball...',
    ];
    let state = firstBuildState;
    for (const line of lines) {
      const next = addBuildLine(state, line);
      expect(next.percent).toBeGreaterThanOrEqual(state.percent);
      state = next;
    }
    expect(state.stage).toBe('Storing the image');
    expect(play(lines.slice(0, -3)).percent).toBe(play(lines.slice(0, -1)).percent);
  });
});

describe('a failed build', () => {
  it.each([
    ['E: Unable to locate package no-such', 'rejected', /has no package no-such/],
    [
      "E: Failed to fetch http://x/y.deb  Could not resolve 'x'",
      'unreachable',
      /cannot be downloaded from http:\/\/deb\.debian\.org/,
    ],
    ['tar: ./usr/a: Cannot write: No space left on device', 'no_capacity', /disk is full/],
    ['W: GPG error: http://x trixie InRelease: NO_PUBKEY 6ED0E7B82643E131', 'rejected', /debian-archive-keyring/],
    ['something nobody foresaw', 'rejected', /something nobody foresaw/],
  ])('explains "%s" with advice', async (line, kind, message) => {
    const fault = describeFailure(await readRecipe(folder), ['I: installing', line]);
    expect(fault.kind).toBe(kind);
    expect(fault.message).toMatch(message);
  });
});

it('packs a build context that tar reads', async () => {
  const file = join(folder, '..', 'context.tar');
  const recipe = await readRecipe(folder);
  await pipeline(buildContext(recipe), createWriteStream(file));
  const { stdout } = await promisify(execFile)('tar', ['-xOf', file, 'Dockerfile']);
  expect(stdout).toBe(dockerfile(recipe));
});
