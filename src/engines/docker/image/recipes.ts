/**
 * Recipes of the default images (`images/README.md`), a folder each. mmdebstrap streams one tar
 * into the engine: no registry, no Dockerfile, no privileged build container.
 */
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

const oneLine = z.string().regex(/^[^\r\n]+$/);
const packageName = z.string().regex(/^[a-z0-9][a-z0-9+.-]+$/);

const imageName = z.string().regex(/^[a-z0-9]+(?:[-_.][a-z0-9]+)*$/);
const imageLabels = z.record(z.string().regex(/^[a-z0-9.-]+$/), oneLine).default({});

const recipeFile = z.strictObject({
  name: imageName,
  suite: z.string().regex(/^[a-z0-9-]+$/),
  /** Lines of sources.list. The keyrings of the building machine check signatures. */
  sources: z.array(oneLine).min(1),
  fallbackBase: oneLine,
  packages: z.array(packageName).min(1),
  dpkg: z.array(oneLine).default([]),
  environment: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), oneLine).default({}),
  command: z.array(oneLine).default(['sh']),
  labels: imageLabels,
  /** Other images of the same folder, by name. */
  variants: z
    .record(
      imageName,
      z.strictObject({
        without: z.array(packageName).default([]),
        /** Lock of Python packages; the engine installs them on top of the recipe's image. */
        adds: oneLine.optional(),
        labels: imageLabels,
      }),
    )
    .default({}),
});

/** Shell scripts of the folder; `$1` is the image's root, `$2` its name. */
const hookNames = ['prepare.sh', 'customize.sh'] as const;
type HookName = (typeof hookNames)[number];

export type Recipe = z.infer<typeof recipeFile> & {
  readonly hooks: Readonly<Partial<Record<HookName, string>>>;
  readonly files: Readonly<Record<string, string>>;
  readonly hash: string;
  readonly adds?: { readonly lock: string; readonly to: Recipe };
};

export async function readRecipe(folder: string, variant?: string): Promise<Recipe> {
  const names = (await readdir(folder, { withFileTypes: true }))
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map((entry) => entry.name)
    .sort();
  const hash = createHash('sha256');
  const contents = new Map<string, string>();
  for (const name of names) {
    const bytes = await readFile(join(folder, name));
    hash.update(`${name}\0${bytes.length}\0`).update(bytes);
    contents.set(name, bytes.toString('utf8'));
  }
  const text = contents.get('recipe.json');
  if (text === undefined) throw new Error(`${folder} has no recipe.json`);
  const parsed = recipeFile.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(`${join(folder, 'recipe.json')}: ${z.prettifyError(parsed.error)}`);
  const hooks: Partial<Record<HookName, string>> = {};
  for (const name of hookNames) {
    const script = contents.get(name);
    if (script !== undefined) hooks[name] = script;
  }
  const isKnown = (name: string): boolean => name === 'recipe.json' || hookNames.some((hook) => hook === name);
  const files = Object.fromEntries([...contents].filter(([name]) => !isKnown(name)));
  const recipe = { ...parsed.data, hooks, files, hash: hash.digest('hex') };
  if (variant === undefined) return recipe;
  const made = recipe.variants[variant];
  if (made === undefined) throw new Error(`${join(folder, 'recipe.json')} has no variant ${variant}`);
  const packages = recipe.packages.filter((name) => !made.without.includes(name));
  const other = { ...recipe, name: variant, packages, labels: made.labels };
  if (made.adds === undefined) return other;
  return { ...other, fallbackBase: recipeRef(recipe), adds: { lock: made.adds, to: recipe } };
}

export const isWithoutPyPI = (lines: readonly string[]): boolean =>
  lines.some((line) => line.includes('the Python packages of PyPI cannot be had'));

export function withoutPyPI(recipe: Recipe): Recipe {
  const key = 'org.opencontainers.image.description';
  const text = `${recipe.labels[key] ?? recipe.name}; PyPI could not be reached: Debian's Python packages`;
  return { ...recipe, labels: { ...recipe.labels, [key]: text } };
}

export const repositoryOf = (recipe: Recipe): string => `berth.local/${recipe.name}`;
export const tagOf = (recipe: Recipe): string => recipe.hash.slice(0, 12);

/** An edited recipe gets another ref. `berth.local` is no registry, so no engine pulls the ref. */
export const recipeRef = (recipe: Recipe): string => `${repositoryOf(recipe)}:${tagOf(recipe)}`;

/** Image settings as Dockerfile lines, also the format of an import's `changes`. */
export function importChanges(recipe: Recipe): string[] {
  const pairs = (entries: Record<string, string>) =>
    Object.entries(entries).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return [
    ...pairs(recipe.environment).map((pair) => `ENV ${pair}`),
    ...pairs(recipe.labels).map((pair) => `LABEL ${pair}`),
    `CMD ${JSON.stringify(recipe.command)}`,
  ];
}

/** `mode`: `root`, or `unshare` for other users. Writes the tar to stdout, progress to stderr. */
export function mmdebstrapArguments(recipe: Recipe, folder: string, mode: 'root' | 'unshare'): string[] {
  const hook = (stage: string, name: HookName): string[] =>
    recipe.hooks[name] === undefined ? [] : [`--${stage}-hook=sh ${quote(join(folder, name))} "$1" ${recipe.name}`];
  return [
    '--verbose', // apt's and dpkg's lines on stderr, for addBuildLine
    '--variant=apt',
    `--mode=${mode}`,
    '--format=tar',
    '--aptopt=APT::Install-Recommends "false"',
    // A hook: with --dpkgopt mmdebstrap starts a Python filter per package, 6 of 30 seconds.
    `--extract-hook=printf %s ${quote(dpkgFile(recipe))} >"$1/etc/dpkg/dpkg.cfg.d/99berth"`,
    ...hook('essential', 'prepare.sh'),
    ...hook('customize', 'customize.sh'),
    `--include=${recipe.packages.join(',')}`,
    recipe.suite,
    '-',
    ...recipe.sources,
  ];
}

const dpkgFile = (recipe: Recipe): string => recipe.dpkg.map((option) => `${option}\n`).join('');
const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const HOOKS = '/tmp/hook';

/** Files of the build beside the Dockerfile, by name. */
export const buildFiles = (recipe: Recipe): Record<string, string> => ({
  ...recipe.files,
  ...recipe.hooks,
  '99berth': dpkgFile(recipe),
  'sources.list': recipe.sources.map((line) => `${line}\n`).join(''),
});

/**
 * Dockerfile of the same image on `fallbackBase`, or of what a variant adds. One layer, so removed
 * files take no space. `settings` are variables of the build, which the image's history shows.
 */
export function dockerfile(recipe: Recipe, settings: Readonly<Record<string, string>> = {}): string {
  const hook = (name: HookName) => (recipe.hooks[name] === undefined ? [] : [`sh ${HOOKS}/${name} / ${recipe.name}`]);
  const steps =
    recipe.adds === undefined
      ? [
          `cp ${HOOKS}/99berth /etc/dpkg/dpkg.cfg.d/99berth`,
          'echo I: downloading packages with apt',
          'rm -f /etc/apt/sources.list.d/*',
          `cp ${HOOKS}/sources.list /etc/apt/sources.list`,
          'apt-get update',
          'apt-get -y upgrade',
          ...hook('prepare.sh'),
          'echo I: installing remaining packages',
          `apt-get -y install --no-install-recommends ${recipe.packages.join(' ')}`,
          'echo I: running --customize-hook',
          ...hook('customize.sh'),
          'rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb',
        ]
      : [
          'echo I: installing remaining packages',
          `sh ${HOOKS}/python.sh / ${HOOKS}/${recipe.adds.lock}`,
          'echo I: running --customize-hook',
          'python3 -m compileall -q -j 0 /opt/venv/lib',
        ];
  const exported = { ...settings, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' };
  const exports = Object.entries(exported).map(([name, value]) => `export ${name}=${quote(value)}`);
  const run = ['/bin/sh', '-c', ['set -e', ...exports, ...steps, `rm -rf ${HOOKS}`].join(' && ')];
  const lines = [`FROM ${recipe.fallbackBase}`, `COPY hook ${HOOKS}`, `RUN ${JSON.stringify(run)}`];
  return [...lines, ...importChanges(recipe), ''].join('\n');
}
