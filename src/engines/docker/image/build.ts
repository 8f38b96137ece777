/** Builds a default image: by mmdebstrap here, else in the engine on the recipe's base image. */
import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type Docker from 'dockerode';
import { pack } from 'tar-stream';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { errorCode, errorText } from '../../../domain/kernel/unknown-error.ts';
import type { OnProgress } from '../../contract.ts';
import { describeFailure, makeBuildLog, readBuildStream, type Report } from './build-progress.ts';
import { buildWithMmdebstrap, canRun } from './mmdebstrap.ts';
import { buildFiles, dockerfile, isWithoutPyPI, recipeRef, withoutPyPI, type Recipe } from './recipes.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export interface BuildOptions {
  docker: Docker;
  recipe: Recipe;
  /** Absolute folder of the recipe; hooks run from there. */
  folder: string;
  signal: AbortSignal;
  onProgress: OnProgress;
  onWarning?: (text: string) => void;
  /** Variables that name proxies, certificates and the index of Python packages. */
  environment?: Environment;
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
  if (recipe.adds !== undefined) await buildRecipe({ ...options, recipe: recipe.adds.to });
  let last = '';
  const report: Report = (text, percent) => {
    if (last === `${text} ${percent}`) return;
    last = `${text} ${percent}`;
    options.onProgress({ text, done: percent, total: 100, unit: 'steps' });
  };
  try {
    const isHere =
      recipe.adds === undefined && (await canRun('mmdebstrap', ['--version'])) && (await hasOurArchitecture(docker));
    const lines = await (isHere ? buildWithMmdebstrap({ ...options, report }) : buildInEngine(options, report));
    if (isWithoutPyPI(lines)) options.onWarning?.(lines.filter((line) => isWithoutPyPI([line])).join('\n'));
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

async function buildInEngine(options: BuildOptions, report: Report): Promise<readonly string[]> {
  await pullBase(options, report);
  const { docker, recipe, signal, environment = {} } = options;
  const log = makeBuildLog(report);
  const proxies = Object.fromEntries(pairsOf(environment, PROXIES));
  const request = { t: recipeRef(recipe), rm: true, forcerm: true, buildargs: proxies, abortSignal: signal };
  try {
    await readBuildStream(await docker.buildImage(await buildContext(recipe, environment), request), log.add);
    if (isWithoutPyPI(log.lines)) {
      const labelled = pack();
      const { labels } = withoutPyPI(recipe);
      const lines = Object.entries(labels).map(([key, value]) => `LABEL ${key}=${JSON.stringify(value)}`);
      labelled.entry({ name: 'Dockerfile' }, [`FROM ${recipeRef(recipe)}`, ...lines, ''].join('\n'));
      labelled.finalize();
      await readBuildStream(await docker.buildImage(labelled, request), () => {});
    }
    return log.lines;
  } catch (error) {
    signal.throwIfAborted();
    if (log.lines.length === 0) throw error;
    throw describeFailure(recipe, [...log.lines, errorText(error)]);
  }
}

const PROXIES = ['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'];
const INDEXES = ['PIP_INDEX_URL', 'PIP_EXTRA_INDEX_URL', 'PIP_TRUSTED_HOST', 'UV_DEFAULT_INDEX', 'UV_INDEX'];
const CERTIFICATES = ['SSL_CERT_FILE', 'PIP_CERT', 'REQUESTS_CA_BUNDLE'];
const USUAL_BUNDLE = '/etc/ssl/certs/ca-certificates.crt';

function pairsOf(environment: Environment, names: readonly string[]): [string, string][] {
  return names.map((name): [string, string] => [name, environment[name] ?? '']).filter(([, value]) => value !== '');
}

/**
 * Tar of the Dockerfile, with hooks and files of the recipe in `hook/`. An index with a login is
 * left out: the image's history would show it.
 */
export async function buildContext(recipe: Recipe, environment: Environment): Promise<Readable> {
  const settings = Object.fromEntries(pairsOf(environment, INDEXES).filter(([, value]) => !value.includes('@')));
  const bundle = pairsOf(environment, CERTIFICATES)[0]?.[1] ?? USUAL_BUNDLE;
  const certificates = await readFile(bundle).catch(() => null);
  const tar = pack();
  const add = (name: string, content: string | Buffer) => tar.entry({ name, mtime: new Date(0) }, content);
  if (certificates !== null) {
    add('hook/ca.pem', certificates);
    settings['SSL_CERT_FILE'] = '/tmp/hook/ca.pem';
  }
  add('Dockerfile', dockerfile(recipe, settings));
  for (const [name, content] of Object.entries(buildFiles(recipe))) add(`hook/${name}`, content);
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
