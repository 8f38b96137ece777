/** Builds a default image: by mmdebstrap here, else in the engine on the recipe's base image. */
import type { Readable } from 'node:stream';
import type Docker from 'dockerode';
import { pack } from 'tar-stream';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { errorCode, errorText } from '../../../domain/kernel/unknown-error.ts';
import type { OnProgress } from '../../contract.ts';
import { describeFailure, makeBuildLog, readBuildStream, type Report } from './build-progress.ts';
import { buildWithMmdebstrap, canRun } from './mmdebstrap.ts';
import { dockerfile, recipeRef, type Recipe } from './recipes.ts';

export interface BuildOptions {
  docker: Docker;
  recipe: Recipe;
  /** Absolute folder of the recipe; hooks run from there. */
  folder: string;
  signal: AbortSignal;
  onProgress: OnProgress;
  workFolder?: string;
}

const AWAY: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOENT', 'ECONNRESET', 'EPIPE', 'EACCES']);

/**
 * Makes `recipeRef(recipe)` present. Faults: `unreachable` (mirror or engine), `no_capacity` (disk
 * full), `rejected` (unknown package, missing keys, neither mmdebstrap nor base image).
 */
export async function buildRecipe(options: BuildOptions): Promise<void> {
  const { docker, recipe, signal } = options;
  signal.throwIfAborted();
  if (await isPresent(docker, recipeRef(recipe))) return;
  let last = '';
  const report: Report = (text, percent) => {
    if (last === `${text} ${percent}`) return;
    last = `${text} ${percent}`;
    options.onProgress({ text, done: percent, total: 100, unit: 'steps' });
  };
  try {
    if ((await canRun('mmdebstrap', ['--version'])) && (await hasOurArchitecture(docker)))
      await buildWithMmdebstrap({ ...options, report });
    else await buildInEngine(options, report);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EngineFault) throw error;
    const away = AWAY.has(errorCode(error));
    const message = errorText(error);
    if (/no space left on device/i.test(message)) throw describeFailure(recipe, [message]);
    const text = `The engine did not accept the image "${recipe.name}": ${message}`;
    throw new EngineFault(away ? 'unreachable' : 'rejected', text, { retry: away, cause: error });
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

async function hasOurArchitecture(docker: Docker): Promise<boolean> {
  const info: { Architecture?: string } = await docker.info();
  const ours: Partial<Record<string, readonly string[]>> = { x64: ['x86_64', 'amd64'], arm64: ['aarch64', 'arm64'] };
  return ours[process.arch]?.includes(info.Architecture ?? '') ?? false;
}

async function buildInEngine(options: BuildOptions, report: Report): Promise<void> {
  await pullBase(options, report);
  const { docker, recipe, signal } = options;
  const log = makeBuildLog(report);
  const request = { t: recipeRef(recipe), rm: true, forcerm: true, abortSignal: signal };
  try {
    await readBuildStream(await docker.buildImage(buildContext(recipe), request), log.add);
  } catch (error) {
    signal.throwIfAborted();
    if (log.lines.length === 0) throw error;
    throw describeFailure(recipe, [...log.lines, errorText(error)]);
  }
}

/** Tar of the Dockerfile alone: hooks and files of the recipe are inlined in its one `RUN`. */
export function buildContext(recipe: Recipe): Readable {
  const tar = pack();
  tar.entry({ name: 'Dockerfile', mtime: new Date(0) }, dockerfile(recipe));
  tar.finalize();
  return tar;
}

async function pullBase({ docker, recipe, signal }: BuildOptions, report: Report): Promise<void> {
  const base = recipe.fallbackBase;
  if (await isPresent(docker, base)) return;
  report(`Downloading ${base}`, 0);
  try {
    await readBuildStream(await docker.pull(base, { abortSignal: signal }), () => {});
  } catch (error) {
    signal.throwIfAborted();
    const advice = `Install mmdebstrap where Berth runs (apt-get install mmdebstrap), or let the engine reach ${base}.`;
    const message = `The image "${recipe.name}" cannot be built: mmdebstrap is missing, and the engine cannot download ${base}. ${advice}`;
    throw new EngineFault('rejected', message, { retry: false, cause: error });
  }
}
