import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PassThrough, type Readable } from 'node:stream';
import type Docker from 'dockerode';
import { onAbort } from '../../../async/abort.ts';
import { describeFailure, makeBuildLog, readBuildStream, type Report } from './build-progress.ts';
import {
  importChanges,
  isWithoutPyPI,
  mmdebstrapArguments,
  repositoryOf,
  tagOf,
  withoutPyPI,
  type Recipe,
} from './recipes.ts';

/**
 * Namespaces of the build: killing the first process ends the whole build, mounts included. A slave
 * follows the host's unmounts, so that a build does not hold disks.
 */
const namespaces = ['--mount', '--propagation', 'slave', '--pid', '--fork', '--kill-child', '--mount-proc'];
/** Size of the tmpfs: a build in memory takes two thirds of the time and peaks at about 900 MB. */
const TMPFS_MIB = 2048;
const FREE_MEMORY_MIB = 4096;
const KILL_AFTER_MS = 5_000;
/** The host's mounts may propagate nowhere, as in a container: so the copies of disks go first. */
const inWorkFolder = `
work=$1 size=$2 isolated=$3; shift 3
if [ "$isolated" = yes ]; then
  mounts=$(cat /proc/self/mounts)
  while read -r source point type rest; do
    case "$type $source $point" in "xfs /dev/loop"*/mount) umount -l "$(printf %b "$point")" ;; esac
  done <<MOUNTS
$mounts
MOUNTS
fi
[ "$size" = 0 ] || mount -t tmpfs -o "mode=0755,size=\${size}m" berth-recipe "$work" || exit
export TMPDIR="$work" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
exec mmdebstrap "$@"`;

export const canRun = (command: string, args: readonly string[]): Promise<boolean> =>
  once(spawn(command, args, { stdio: 'ignore' }), 'close').then(
    ([code]: unknown[]) => code === 0,
    () => false,
  );

export async function buildWithMmdebstrap(options: {
  docker: Docker;
  recipe: Recipe;
  folder: string;
  signal: AbortSignal;
  workFolder?: string;
  report: Report;
}): Promise<readonly string[]> {
  const { docker, recipe, signal, report } = options;
  const work = await mkdtemp(join(options.workFolder ?? tmpdir(), 'berth-recipe-'));
  try {
    await chmod(work, 0o755); // apt downloads as its own user
    const root = process.getuid?.() === 0;
    const isolated = root && (await canRun('unshare', [...namespaces, 'true']));
    const inMemory = isolated && process.availableMemory() > FREE_MEMORY_MIB * 2 ** 20;
    const command = [
      ...(isolated ? ['unshare', ...namespaces] : []),
      'sh',
      '-c',
      inWorkFolder,
      'sh',
      work,
      inMemory ? String(TMPFS_MIB) : '0',
      isolated ? 'yes' : 'no',
      ...mmdebstrapArguments(recipe, options.folder, root ? 'root' : 'unshare'),
    ];
    const importTar: Upload = async (tar, lines, abortSignal) => {
      const changes = importChanges(isWithoutPyPI(lines) ? withoutPyPI(recipe) : recipe);
      const request = { repo: repositoryOf(recipe), tag: tagOf(recipe), changes, abortSignal };
      await readBuildStream(await docker.importImage(tar, request), () => {});
    };
    return await pipeBuild(command, { isolated, signal, recipe, report }, importTar);
  } finally {
    await rm(work, { recursive: true, force: true, maxRetries: 3 });
  }
}

type Upload = (tar: Readable, lines: readonly string[], signal: AbortSignal) => Promise<void>;

/**
 * Pipes the command's tar to `upload`, begun with the first byte, so the engine never waits on an
 * idle connection. A failed command aborts it: the engine would make an image of half a tar.
 */
async function pipeBuild(
  command: readonly string[],
  context: { isolated: boolean; signal: AbortSignal; recipe: Recipe; report: Report },
  upload: Upload,
): Promise<readonly string[]> {
  const [file = '', ...args] = command;
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const closed = once(child, 'close');
  let force: NodeJS.Timeout | undefined;
  const kill = (): void => {
    // Without namespaces only mmdebstrap knows its mounts, so it gets the time to unmount.
    signalGroup(child, context.isolated ? 'SIGKILL' : 'SIGTERM');
    force ??= setTimeout(() => signalGroup(child, 'SIGKILL'), KILL_AFTER_MS);
  };
  const log = makeBuildLog(context.report);
  const reader = createInterface({ input: child.stderr }).on('line', log.add);

  const uploadAbort = new AbortController();
  const tar = new PassThrough();
  let uploading: Promise<void> = Promise.resolve();
  let uploadError: unknown;
  child.stdout.once('readable', () => {
    if (child.stdout.readableLength === 0) return void child.stdout.resume(); // no output
    child.stdout.pipe(tar, { end: false });
    uploading = upload(tar, log.lines, uploadAbort.signal);
    uploading.catch((error: unknown) => {
      uploadError = error;
      kill();
      child.stdout.resume();
    });
  });
  const unsubscribeKill = onAbort(context.signal, kill);
  try {
    const [code]: unknown[] = await closed;
    context.signal.throwIfAborted();
    if (uploadError !== undefined) throw uploadError;
    if (code !== 0) throw describeFailure(context.recipe, log.lines);
    tar.end();
    const unsubscribe = onAbort(context.signal, () => uploadAbort.abort());
    await uploading.finally(unsubscribe);
    return log.lines;
  } finally {
    unsubscribeKill();
    clearTimeout(force);
    reader.close();
    uploadAbort.abort();
    await uploading.catch(() => {});
    tar.destroy();
  }
}

function signalGroup({ pid }: ChildProcess, name: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, name);
  } catch {
    // The process group has ended.
  }
}
