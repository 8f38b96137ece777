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
  isWithoutPyPI,
  mmdebstrapArguments,
  readRecipe,
  recipeRef,
  withoutPyPI,
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
    expect(whole.packages).toEqual(expect.arrayContaining(['python3-venv', 'gcc']));
    expect(small.packages).toContain('python3-venv');
    expect(small.packages).not.toEqual(expect.arrayContaining(['gcc']));
    expect(small.packages.length).toBe(whole.packages.length - (whole.variants['notebook-small']?.without.length ?? 0));
    expect(mmdebstrapArguments(small, shipped, 'root').join(' ')).not.toMatch(/gcc/);
    expect(dockerfile(small)).not.toMatch(/gcc/);
    await expect(readRecipe(shipped, 'notebook-tiny')).rejects.toThrow(/no variant notebook-tiny/);
  });

  it('has a variant that adds the packages of a lock to its image, by the engine', async () => {
    const [whole, more] = [await readRecipe(shipped), await readRecipe(shipped, 'notebook-pytorch')];
    expect(more.adds?.to).toEqual(whole);
    const text = dockerfile(more);
    expect(text).toMatch(new RegExp(`^FROM ${recipeRef(whole)}\n`));
    expect(text).toContain('python.sh / /tmp/hook/requirements-pytorch.txt');
    expect(text).not.toMatch(/apt-get/);
    expect(more.files['requirements-pytorch.txt']).toMatch(/^torch==.* \\\n {4}--hash=sha256:/m);
  });

  it('has locks whose lines all have hashes, of one version of each package, and of no index', async () => {
    const { files } = await readRecipe(shipped);
    const versions = new Map<string, string>();
    for (const name of ['requirements.txt', 'requirements-small.txt', 'requirements-pytorch.txt']) {
      const text = files[name] ?? '';
      const pins = [...text.matchAll(/^([a-z0-9-]+)==(\S+)(.*)/gm)];
      expect(pins.length).toBeGreaterThan(20);
      for (const [, one = '', version = '', rest] of pins) {
        expect([one, rest]).toEqual([one, ' \\']);
        expect([one, versions.get(one) ?? version]).toEqual([one, version]);
        versions.set(one, version);
      }
      expect(text).not.toMatch(/https?:|--index|--find-links/);
    }
    expect(files['requirements.txt']).toMatch(/^jupyterlab==4\.(?:[6-9]|\d\d)\./m);
  });

  it('says in its description where the Python packages are those of Debian', async () => {
    const line = "I: the Python packages of PyPI cannot be had, these are Debian's: timed out";
    expect([isWithoutPyPI(['I: a line', line]), isWithoutPyPI(['I: a line'])]).toEqual([true, false]);
    expect((await readRecipe(shipped)).hooks['customize.sh']).toContain(line.slice(0, 60));
    const changes = importChanges(withoutPyPI(await readRecipe(shipped)));
    expect(changes.find((each) => each.includes('image.description'))).toMatch(/Debian's Python packages"$/);
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
    expect(args).toContain(String.raw`--essential-hook=sh '/it'\''s here/prepare.sh' "$1" notebook`);
    expect(args.slice(-4)[0]).toBe('-');
    expect(args.join(' ')).not.toMatch(/trusted=yes|AllowUnauthenticated|allow-insecure|no-check-gpg/i);
  });

  it('becomes a single layer when the engine builds it', async () => {
    const text = dockerfile(await readRecipe(folder));
    expect(text.match(/^RUN /gm)).toHaveLength(1);
    expect(text).toMatch(/^FROM debian:trixie-slim\n/);
    expect(text).toMatch(/customize\.sh \/ notebook/);
  });

  it('gets the address of an index in the build of the engine, without a login in it', async () => {
    const environment = {
      PIP_INDEX_URL: 'https://pypi.example.org/simple',
      PIP_EXTRA_INDEX_URL: 'https://user:secret@pypi.example.org/more',
    };
    const file = join(folder, '..', 'index.tar');
    await pipeline(await buildContext(await readRecipe(folder), environment), createWriteStream(file));
    const { stdout: text } = await promisify(execFile)('tar', ['-xOf', file, 'Dockerfile']);
    expect(text).toContain("export PIP_INDEX_URL='https://pypi.example.org/simple'");
    expect(text).not.toContain('secret');
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
  await pipeline(await buildContext(recipe, {}), createWriteStream(file));
  const { stdout } = await promisify(execFile)('tar', ['-tf', file]);
  const names = ['Dockerfile', 'hook/99berth', 'hook/customize.sh', 'hook/python.sh', 'hook/sources.list'];
  expect(stdout.trim().split('\n')).toEqual(expect.arrayContaining(names));
});
