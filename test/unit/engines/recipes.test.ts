/** What a recipe says, what is made of it, and what a build's output means. The build itself is tried by start-script.test.ts. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  buildBegins,
  describeFailure,
  dockerfile,
  foldBuildLine,
  importChanges,
  mmdebstrapArguments,
  readRecipe,
  recipeRef,
  tarOf,
} from '../../../src/engines/docker/image/recipes.ts';

const shipped = new URL('../../../images/notebook', import.meta.url).pathname;
let folder: string;
beforeAll(async () => {
  folder = join(await mkdtemp(join(tmpdir(), 'recipe-test-')), 'notebook');
  await cp(shipped, folder, { recursive: true });
});
afterAll(() => rm(join(folder, '..'), { recursive: true }));

describe('a recipe', () => {
  it('has the same tag wherever it lies, and another when any of its files is edited', async () => {
    const before = recipeRef(await readRecipe(folder));
    expect(before).toMatch(/^berth\.local\/notebook:[0-9a-f]{12}$/);
    expect(recipeRef(await readRecipe(shipped))).toBe(before);
    await writeFile(join(folder, 'extra.txt'), 'more');
    expect(recipeRef(await readRecipe(folder))).not.toBe(before);
    await rm(join(folder, 'extra.txt'));
    expect(recipeRef(await readRecipe(folder))).toBe(before);
  });

  it('is refused with the member that is wrong', async () => {
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

  it('keeps quotes and spaces of its values through the lines of a Dockerfile', async () => {
    const recipe = {
      ...(await readRecipe(folder)),
      environment: { A: 'b "c" d' },
      labels: { 'x.y': 'z' },
      command: ['bash', '-l'],
    };
    expect(importChanges(recipe)).toEqual(['ENV A="b \\"c\\" d"', 'LABEL x.y="z"', 'CMD ["bash","-l"]']);
  });

  it('gives mmdebstrap its hooks as quoted paths, and verification is never off', async () => {
    const args = mmdebstrapArguments(await readRecipe(folder), "/it's here", 'root');
    expect(args).toContain(String.raw`--essential-hook=sh '/it'\''s here/prepare.sh' "$1"`);
    expect(args.slice(-4)[0]).toBe('-');
    expect(args.join(' ')).not.toMatch(/trusted=yes|AllowUnauthenticated|allow-insecure|no-check-gpg/i);
  });

  it('becomes one layer where the engine builds it', async () => {
    const text = dockerfile(await readRecipe(folder));
    expect(text.match(/^RUN /gm)).toHaveLength(1);
    expect(text).toMatch(/^FROM debian:trixie-slim\n/);
    expect(text).toMatch(/jupyterlab/);
  });
});

describe('the progress of a build', () => {
  const play = (lines: string[]) => lines.reduce(foldBuildLine, buildBegins);

  it('never goes back, and ends a stage where the next begins', () => {
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
    let state = buildBegins;
    for (const line of lines) {
      const next = foldBuildLine(state, line);
      expect(next.percent).toBeGreaterThanOrEqual(state.percent);
      state = next;
    }
    expect(state.stage).toBe('Storing the image');
    expect(play(lines.slice(0, -3)).percent).toBe(play(lines.slice(0, -1)).percent);
  });
});

describe('a build that fails', () => {
  it.each([
    ['E: Unable to locate package no-such', 'rejected', /has no package no-such/],
    [
      "E: Failed to fetch http://x/y.deb  Could not resolve 'x'",
      'unreachable',
      /can't be fetched from http:\/\/deb\.debian\.org/,
    ],
    ['tar: ./usr/a: Cannot write: No space left on device', 'no_capacity', /disk is full/],
    ['W: GPG error: http://x trixie InRelease: NO_PUBKEY 6ED0E7B82643E131', 'rejected', /debian-archive-keyring/],
    ['something nobody foresaw', 'rejected', /something nobody foresaw/],
  ])('says of "%s" what to do', async (line, kind, message) => {
    const fault = describeFailure(await readRecipe(folder), ['I: installing', line]);
    expect(fault.kind).toBe(kind);
    expect(fault.message).toMatch(message);
  });
});

it('the tar of a build context is read by tar', async () => {
  const file = join(folder, '..', 'context.tar');
  await writeFile(file, tarOf('Dockerfile', Buffer.from('FROM nowhere\n')));
  const { stdout } = await promisify(execFile)('tar', ['-xOf', file, 'Dockerfile']);
  expect(stdout).toBe('FROM nowhere\n');
});
