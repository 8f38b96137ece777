/**
 * The default images are made here and not pulled: a recipe is a folder (`images/README.md`), its image a Debian installation
 * that mmdebstrap writes as one tar, streamed into the engine. No registry, no Dockerfile, no privileged build container.
 * Where mmdebstrap is missing, the engine builds the same packages on a slim base image, if it can get one.
 *
 * `readRecipe`, `recipeRef`, `importChanges`, `mmdebstrapArguments`, `dockerfile`, `foldBuildLine` and `describeFailure` are
 * pure of the world around (the first reads the folder); `buildRecipe` is the one deed.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PassThrough, Readable } from 'node:stream';
import type Docker from 'dockerode';
import { z } from 'zod';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { ImageProgress } from '../../contract.ts';

const oneLine = z.string().regex(/^[^\r\n]+$/);
const packageName = z.string().regex(/^[a-z0-9][a-z0-9+.-]+$/);

const recipeFile = z.strictObject({
  name: z.string().regex(/^[a-z0-9]+(?:[-_.][a-z0-9]+)*$/),
  suite: z.string().regex(/^[a-z0-9-]+$/),
  /** Lines of sources.list; signatures are checked with the keyrings of the machine that builds. */
  sources: z.array(oneLine).min(1),
  /** What the engine builds on where mmdebstrap is missing. */
  fallbackBase: oneLine,
  packages: z.array(packageName).min(1),
  /** dpkg's own options, in order; they stay in the image. */
  dpkg: z.array(oneLine).default([]),
  environment: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), oneLine).default({}),
  command: z.array(oneLine).default(['sh']),
  labels: z.record(z.string().regex(/^[a-z0-9.-]+$/), oneLine).default({}),
});

/** Hooks of a recipe's folder: shell scripts that get the image's root as `$1`. */
const hookNames = ['prepare.sh', 'customize.sh'] as const;
type HookName = (typeof hookNames)[number];

export type Recipe = z.infer<typeof recipeFile> & {
  readonly hooks: Readonly<Partial<Record<HookName, string>>>;
  /** What else is in the folder, for the hooks: they lie beside it. */
  readonly files: Readonly<Record<string, string>>;
  /** Of every file of the folder: names and contents. */
  readonly hash: string;
};

export async function readRecipe(folder: string): Promise<Recipe> {
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
  return { ...parsed.data, hooks, files, hash: hash.digest('hex') };
}

const repository = (recipe: Recipe): string => `berth.local/${recipe.name}`;
const tag = (recipe: Recipe): string => recipe.hash.slice(0, 12);

/** An edited recipe is another image; `berth.local` is nobody's registry, so the engine never asks the network for it. */
export const recipeRef = (recipe: Recipe): string => `${repository(recipe)}:${tag(recipe)}`;

/** The image's settings as the lines of a Dockerfile, which is how the engine takes them with an import too. */
export function importChanges(recipe: Recipe): string[] {
  const pairs = (entries: Record<string, string>) =>
    Object.entries(entries).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return [
    ...pairs(recipe.environment).map((pair) => `ENV ${pair}`),
    ...pairs(recipe.labels).map((pair) => `LABEL ${pair}`),
    `CMD ${JSON.stringify(recipe.command)}`,
  ];
}

/** `mode` is mmdebstrap's: `root`, or `unshare` for everybody else. The tar goes to stdout, what it does to stderr. */
export function mmdebstrapArguments(recipe: Recipe, folder: string, mode: 'root' | 'unshare'): string[] {
  return [
    '--verbose', // so that stderr has apt's and dpkg's lines, which foldBuildLine counts
    '--variant=apt',
    `--mode=${mode}`,
    '--format=tar',
    '--aptopt=APT::Install-Recommends "false"',
    // by a hook and not by --dpkgopt, for which mmdebstrap would start a filter in Python for each package: 6 of 30 seconds
    `--extract-hook=printf %s ${quote(dpkgFile(recipe))} >"$1/etc/dpkg/dpkg.cfg.d/99berth"`,
    ...(recipe.hooks['prepare.sh'] === undefined
      ? []
      : [`--essential-hook=sh ${quote(join(folder, 'prepare.sh'))} "$1"`]),
    ...(recipe.hooks['customize.sh'] === undefined
      ? []
      : [`--customize-hook=sh ${quote(join(folder, 'customize.sh'))} "$1"`]),
    `--include=${recipe.packages.join(',')}`,
    recipe.suite,
    '-',
    ...recipe.sources,
  ];
}

const dpkgFile = (recipe: Recipe): string => recipe.dpkg.map((option) => `${option}\n`).join('');
const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** The same image on a base that the engine has; the hooks' `$1` is `/`. One layer, so that what is removed is not kept. */
export function dockerfile(recipe: Recipe): string {
  const file = (path: string, text: string) =>
    `printf %s ${Buffer.from(text).toString('base64')} | base64 -d > ${path}`;
  const hook = (name: HookName) =>
    recipe.hooks[name] === undefined ? [] : [file(`/tmp/hook/${name}`, recipe.hooks[name]), `sh /tmp/hook/${name} /`];
  const steps = [
    'set -e',
    'mkdir /tmp/hook',
    file('/etc/dpkg/dpkg.cfg.d/99berth', dpkgFile(recipe)),
    'echo I: downloading packages with apt',
    'rm -f /etc/apt/sources.list.d/*',
    file('/etc/apt/sources.list', recipe.sources.map((line) => `${line}\n`).join('')),
    'apt-get update',
    'apt-get -y upgrade',
    ...hook('prepare.sh'),
    'echo I: installing remaining packages',
    `apt-get -y install --no-install-recommends ${recipe.packages.join(' ')}`,
    'echo I: running --customize-hook',
    ...Object.entries(recipe.files).map(([name, text]) => file(`/tmp/hook/${name}`, text)),
    ...hook('customize.sh'),
    'rm -rf /tmp/hook /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb',
  ];
  const run = JSON.stringify([
    '/bin/sh',
    '-c',
    `export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8; ${steps.join(' && ')}`,
  ]);
  return [`FROM ${recipe.fallbackBase}`, `RUN ${run}`, ...importChanges(recipe), ''].join('\n');
}

/** Where a build is. Immutable: `foldBuildLine` answers the next one. */
export interface BuildState {
  readonly stage: string;
  readonly percent: number;
  /** Steps of the stage, two for each package: unpacked, set up. */
  readonly planned: number;
  readonly taken: number;
}
export const buildBegins: BuildState = { stage: 'Reading package lists', percent: 0, planned: 0, taken: 0 };

/** mmdebstrap's own lines, what we call the stage, and the share of the time gone when it begins (measured, images/README.md). */
const stages: readonly { line: RegExp; stage: string; from: number; to: number }[] = [
  { line: /^I: downloading packages with apt/, stage: 'Downloading the base system', from: 7, to: 9 },
  { line: /^I: extracting archives/, stage: 'Unpacking the base system', from: 9, to: 16 },
  { line: /^I: installing essential packages/, stage: 'Installing the base system', from: 16, to: 28 },
  { line: /^I: installing remaining packages/, stage: 'Installing packages', from: 28, to: 66 },
  { line: /^I: running --customize-hook/, stage: 'Finishing', from: 66, to: 81 },
  { line: /^I: creating tarball/, stage: 'Storing the image', from: 81, to: 99 },
];

export function foldBuildLine(state: BuildState, line: string): BuildState {
  const entered = stages.find((stage) => stage.line.test(line));
  if (entered !== undefined) return { stage: entered.stage, percent: entered.from, planned: 0, taken: 0 };
  const plan = /^\d+ upgraded, (\d+) newly installed/.exec(line);
  if (plan !== null) return { ...state, planned: 2 * Number(plan[1]), taken: 0 };
  if (!/^(?:Unpacking|Setting up) /.test(line)) return state;
  const current = stages.find((stage) => stage.stage === state.stage);
  const taken = state.taken + 1;
  if (current === undefined || state.planned === 0) return { ...state, taken };
  const percent = current.from + Math.floor((current.to - current.from) * Math.min(1, taken / state.planned));
  return { ...state, taken, percent: Math.max(state.percent, percent) };
}

/** From what the build said last to a sentence that says what to do. The whole of `lines` goes to the log as the cause. */
export function describeFailure(recipe: Recipe, lines: readonly string[]): EngineFault {
  const text = lines.join('\n');
  const cause = new Error(text);
  const complaints = lines.filter(
    (line) => /^(?:E|W|Err|dpkg|tar)[: ]/.test(line) && !/^E: (?:run_|apt-get .* failed|.* failed)/.test(line),
  );
  const said = (complaints.length > 0 ? complaints : lines).slice(-6).join('\n');
  const fault = (kind: EngineFault['kind'], retry: boolean, advice: string) =>
    new EngineFault(kind, `The image "${recipe.name}" can't be built: ${advice}\n${said}`, { retry, cause });
  if (/No space left on device|not have enough free space/i.test(text))
    return fault('no_capacity', true, 'the disk is full.');
  if (/NO_PUBKEY|not signed|Missing key|keyring/i.test(text))
    return fault(
      'rejected',
      false,
      `this machine lacks the keys of ${recipe.suite}. Install or update debian-archive-keyring.`,
    );
  const unknown = /Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate/.exec(text);
  if (unknown !== null) return fault('rejected', false, `${recipe.suite} has no package ${unknown[1] ?? unknown[2]}.`);
  if (
    /Failed to fetch|Temporary failure|Could not resolve|Could not connect|Unable to connect|Connection (?:failed|timed out)|Err:\d/i.test(
      text,
    )
  )
    return fault(
      'unreachable',
      true,
      `a package can't be fetched from ${[...new Set(recipe.sources.map((line) => line.split(/\s+/)[1]))].join(', ')}.`,
    );
  return fault('rejected', false, 'its last words were:');
}

export interface BuildOptions {
  docker: Docker;
  recipe: Recipe;
  /** The recipe's folder, absolute: its hooks are run from there. */
  folder: string;
  signal: AbortSignal;
  /** Called when stage or percent changes; `done` of `total` 100. */
  onProgress(progress: ImageProgress): void;
  /** Where the installation is put together if memory does not suffice; default: the system's temporary folder. */
  workFolder?: string;
}

/**
 * Makes `recipeRef(recipe)` present in the engine; what is present already is left, and success.
 * Faults: `unreachable` (a mirror or the engine), `no_capacity` (disk full), `rejected` (what has to be mended first: a package
 * that does not exist, no keys, no mmdebstrap and no base image). Aborted: the signal's reason, and nothing stays behind.
 */
export async function buildRecipe(options: BuildOptions): Promise<void> {
  const { docker, recipe, signal } = options;
  signal.throwIfAborted();
  if (await isPresent(docker, recipeRef(recipe))) return;
  let last = '';
  const report = (text: string, percent: number) => {
    if (last === `${text} ${percent}`) return;
    last = `${text} ${percent}`;
    options.onProgress({ text, done: percent, total: 100, unit: 'steps' });
  };
  try {
    if ((await canRun('mmdebstrap', ['--version'])) && (await isOurArchitecture(docker)))
      await buildHere(options, report);
    else await buildInEngine(options, report);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EngineFault) throw error;
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const away = ['ECONNREFUSED', 'ENOENT', 'ECONNRESET', 'EPIPE', 'EACCES'].includes(code);
    const message = error instanceof Error ? error.message : String(error);
    if (/no space left on device/i.test(message)) throw describeFailure(recipe, [message]);
    throw new EngineFault(
      away ? 'unreachable' : 'rejected',
      `The engine did not take the image "${recipe.name}": ${message}`,
      {
        retry: away,
        cause: error,
      },
    );
  }
  report('Ready', 100);
}

async function isPresent(docker: Docker, ref: string): Promise<boolean> {
  try {
    await docker.getImage(ref).inspect();
    return true;
  } catch (error) {
    if (error instanceof Error && 'statusCode' in error && error.statusCode === 404) return false;
    throw error;
  }
}

/** An engine on another machine may be of another architecture; then only it can build for itself. */
async function isOurArchitecture(docker: Docker): Promise<boolean> {
  const info: { Architecture?: string } = await docker.info();
  const ours: Partial<Record<string, readonly string[]>> = { x64: ['x86_64', 'amd64'], arm64: ['aarch64', 'arm64'] };
  return ours[process.arch]?.includes(info.Architecture ?? '') ?? false;
}

function canRun(command: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: 'ignore' });
    child.once('error', () => resolve(false));
    child.once('close', (code) => resolve(code === 0));
  });
}

/** Namespaces of its own: when its first process is killed all of the build is gone, the mounts inside the image too. */
const enclosed = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
/** A build in memory takes two thirds of the time of one on disk; it needs about 900 MB at its height. */
const memoryMiB = 2048;
const memoryToSpareMiB = 4096;
const inWorkFolder = `
work=$1 size=$2; shift 2
[ "$size" = 0 ] || mount -t tmpfs -o "mode=0755,size=\${size}m" berth-recipe "$work" || exit
export TMPDIR="$work" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
exec mmdebstrap "$@"`;

async function buildHere(options: BuildOptions, report: (text: string, percent: number) => void): Promise<void> {
  const { docker, recipe, signal } = options;
  const work = await mkdtemp(join(options.workFolder ?? tmpdir(), 'berth-recipe-'));
  try {
    await chmod(work, 0o755); // apt fetches as a user of its own
    const root = process.getuid?.() === 0;
    const alone = root && (await canRun('unshare', [...enclosed, 'true']));
    const inMemory = alone && process.availableMemory() > memoryToSpareMiB * 2 ** 20;
    const shell = ['sh', '-c', inWorkFolder, 'sh', work, inMemory ? String(memoryMiB) : '0'];
    const command = [
      ...(alone ? ['unshare', ...enclosed] : []),
      ...shell,
      ...mmdebstrapArguments(recipe, options.folder, root ? 'root' : 'unshare'),
    ];
    await runInto(command, { alone, signal, recipe, report }, (tar, abort) => importTar(docker, recipe, tar, abort));
  } finally {
    await rm(work, { recursive: true, force: true, maxRetries: 3 });
  }
}

/**
 * Runs a command that writes an image's tar to stdout, and hands that to `take`. `take` starts with the first byte, so that the
 * engine is not kept waiting on an idle connection, and sees the end only of a tar that is whole: a command that fails breaks
 * the connection off instead, since the engine would make an image of half a tar.
 */
async function runInto(
  command: readonly string[],
  context: { alone: boolean; signal: AbortSignal; recipe: Recipe; report: (text: string, percent: number) => void },
  take: (tar: Readable, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const [file = '', ...args] = command;
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const closed = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  let force: NodeJS.Timeout | undefined;
  const kill = () => {
    const send = (name: NodeJS.Signals) => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, name);
      } catch {
        // gone already
      }
    };
    // not in namespaces of its own, mmdebstrap is the one who knows what it has mounted
    send(context.alone ? 'SIGKILL' : 'SIGTERM');
    force ??= setTimeout(() => send('SIGKILL'), 5000);
  };
  const lines: string[] = [];
  let state = buildBegins;
  const reader = createInterface({ input: child.stderr });
  reader.on('line', (line) => {
    lines.push(line);
    if (lines.length > 80) lines.shift();
    state = foldBuildLine(state, line);
    context.report(state.stage, state.percent);
  });

  const breakOff = new AbortController();
  const tar = new PassThrough();
  let taking: Promise<void> = Promise.resolve();
  let takeFailed: unknown;
  child.stdout.once('readable', () => {
    if (child.stdout.readableLength === 0) return void child.stdout.resume(); // its end, and nothing before
    child.stdout.pipe(tar, { end: false });
    taking = take(tar, breakOff.signal);
    taking.catch((error: unknown) => {
      takeFailed = error;
      kill();
      child.stdout.resume();
    });
  });
  context.signal.addEventListener('abort', kill);
  try {
    if (context.signal.aborted) kill();
    const code = await closed;
    context.signal.throwIfAborted();
    if (takeFailed !== undefined) throw takeFailed;
    if (code !== 0) throw describeFailure(context.recipe, lines);
    tar.end();
    const given = () => breakOff.abort();
    context.signal.addEventListener('abort', given);
    try {
      await taking;
    } finally {
      context.signal.removeEventListener('abort', given);
    }
  } finally {
    context.signal.removeEventListener('abort', kill);
    clearTimeout(force);
    reader.close();
    breakOff.abort();
    await taking.catch(() => {});
    tar.destroy();
  }
}

async function importTar(docker: Docker, recipe: Recipe, tar: Readable, signal: AbortSignal): Promise<void> {
  const where = { repo: repository(recipe), tag: tag(recipe), changes: importChanges(recipe), abortSignal: signal };
  await follow(await docker.importImage(tar, where), () => {});
}

async function buildInEngine(options: BuildOptions, report: (text: string, percent: number) => void): Promise<void> {
  const { docker, recipe, signal } = options;
  if (!(await isPresent(docker, recipe.fallbackBase))) {
    report(`Downloading ${recipe.fallbackBase}`, 0);
    try {
      await follow(await docker.pull(recipe.fallbackBase, { abortSignal: signal }), () => {});
    } catch (error) {
      signal.throwIfAborted();
      const advice = `Install mmdebstrap where Berth runs (apt-get install mmdebstrap), or let the engine reach ${recipe.fallbackBase}.`;
      const message = `The image "${recipe.name}" can't be built: mmdebstrap is missing here, and the engine can't get ${recipe.fallbackBase}. ${advice}`;
      throw new EngineFault('rejected', message, { retry: false, cause: error });
    }
  }
  const lines: string[] = [];
  let state = buildBegins;
  const context = Readable.from([tarOf('Dockerfile', Buffer.from(dockerfile(recipe)))]);
  try {
    const answer = await docker.buildImage(context, {
      t: recipeRef(recipe),
      rm: true,
      forcerm: true,
      abortSignal: signal,
    });
    await follow(answer, (line) => {
      lines.push(line);
      if (lines.length > 80) lines.shift();
      state = foldBuildLine(state, line);
      report(state.stage, state.percent);
    });
  } catch (error) {
    signal.throwIfAborted();
    if (lines.length === 0) throw error;
    throw describeFailure(recipe, [...lines, error instanceof Error ? error.message : String(error)]);
  }
}

/** The engine answers 200 at once, and a failure only as the last line of the body. */
async function follow(answer: NodeJS.ReadableStream, onLine: (line: string) => void): Promise<void> {
  let failure: string | undefined;
  const reader = createInterface({ input: answer });
  const broken = once(answer, 'error').then(([error]: unknown[]) => Promise.reject(error));
  const read = async () => {
    for await (const line of reader) {
      if (line.trim() === '') continue;
      const message: { stream?: string; error?: string } = JSON.parse(line);
      failure = message.error ?? failure;
      for (const text of (message.stream ?? '').split(/\r?\n/)) if (text !== '') onLine(text);
    }
  };
  await Promise.race([read(), broken]);
  if (failure !== undefined) throw new Error(failure);
}

/** A tar of one file, as POSIX has it: a header, the bytes, and zeros to the next 512, then two empty blocks. */
export function tarOf(name: string, bytes: Buffer): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, length: number) => `${value.toString(8).padStart(length - 1, '0')}\0`;
  header.write(name, 0);
  header.write(
    octal(0o644, 8) + octal(0, 8) + octal(0, 8) + octal(bytes.length, 12) + octal(0, 12) + ' '.repeat(8) + '0',
    100,
  );
  header.write('ustar\u000000', 257);
  header.write(
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      7,
    ),
    148,
  );
  return Buffer.concat([header, bytes, Buffer.alloc(((512 - (bytes.length % 512)) % 512) + 1024)]);
}
