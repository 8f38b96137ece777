/** Loop devices and mounts of image files, and the freeze for a copy. */
import { spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makeKeyedMutex } from '../../async/mutex.ts';
import { errorCode } from '../../domain/kernel/unknown-error.ts';
import { isMissing, run, waitForExit } from '../layout.ts';

/** Keyed by path of an image, or of a folder of images. */
export const imageMutex = makeKeyedMutex<string>();

/** Pending writes and discards delay the detachment after the last unmount. */
export const DEVICE_TRIES = 250;
export const DEVICE_PAUSE_MS = 20;

export async function listMountPoints(): Promise<Set<string>> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  return new Set(table.split('\n').map((line) => unescapeOctal(line.split(' ')[4] ?? '')));
}

/** The kernel escapes space, tab, newline and backslash in octal. */
const unescapeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 8)));

/** Exists while any mount does, also in a container. */
export async function findLoopDevice(image: string): Promise<string | null> {
  const names = (await readdir('/sys/block')).filter((name) => name.startsWith('loop'));
  // Sequential reads would take longer than the mount.
  const images = await Promise.all(names.map(readBackingFile));
  const name = names[images.indexOf(image)];
  return name === undefined ? null : `/dev/${name}`;
}

async function readBackingFile(name: string): Promise<string | null> {
  try {
    return (await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8')).trimEnd();
  } catch (error) {
    if (isMissing(error) || errorCode(error) === 'ENODEV') return null;
    throw error;
  }
}

/** Reuses the loop device: a second one would corrupt the image. Detaches with the last mount. */
export const mountImage = (image: string, folder: string, options: readonly string[]): Promise<void> =>
  imageMutex.run(image, async () => mountByDevice(image, folder, options, await findLoopDevice(image)));

/** Skips the search for the loop device of an image just created. */
export const mountNewImage = (image: string, folder: string, options: readonly string[]): Promise<void> =>
  imageMutex.run(image, () => mountByDevice(image, folder, options, null));

async function mountByDevice(
  image: string,
  folder: string,
  options: readonly string[],
  firstDevice: string | null,
): Promise<void> {
  for (let tries = DEVICE_TRIES, attached = firstDevice; ; tries--, attached = await findLoopDevice(image)) {
    const device = attached ?? (await attach(image));
    let isMounted = false;
    try {
      await run('mount', ['-t', 'xfs', '-o', options.join(','), device, folder]);
      isMounted = (await readBackingFile(basename(device))) === image;
      if (isMounted) return;
      await run('umount', [folder]);
    } catch (error) {
      if (attached === null || tries === 0) throw error;
    } finally {
      // Covers a device that a crashed server attached but never mounted.
      if (isMounted || attached === null) await detachDevice(device);
    }
    // The device was detached meanwhile, and may belong to another image.
    if (tries === 0) throw new Error(`${image} could not be mounted: its loop device was detached at every attempt`);
    await delay(DEVICE_PAUSE_MS);
  }
}

/** Takes effect after the last use. */
export const detachDevice = (device: string): Promise<unknown> => run('losetup', ['-d', device]);

/** Direct I/O avoids double caching; set later, it would wait for an idle device. */
async function attach(image: string): Promise<string> {
  const loop = (...options: string[]) => run('losetup', ['--find', '--show', ...options, image]);
  const { stdout } = await loop('--direct-io=on').catch(() => loop());
  return stdout.trim();
}

const FREEZE_LIMIT_S = '20';

/** A shell freezes and thaws, even if the server crashes. */
const FREEZE_AND_COPY = `
trap '' HUP INT TERM
fsfreeze --freeze "$1" || exit
timeout --signal=KILL "$4" cp --reflink=always -- "$2" "$3"
made=$?
fsfreeze --unfreeze "$1" || exit
exit $made`;

/** Copies atomically by shared blocks. Serialized: a frozen file system can't be frozen again. */
export const reflink = (image: string, to: string, mountPoint: string): Promise<void> =>
  imageMutex.run(image, async () => {
    const shell = spawn('sh', ['-c', FREEZE_AND_COPY, 'sh', mountPoint, image, to, FREEZE_LIMIT_S], {
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const { code, stderr } = await waitForExit(shell);
    if (code !== 0) throw new Error(`an instant copy of ${image} failed: ${stderr}`);
  });

/** Thaws file systems that a crash left frozen; `fsfreeze` fails for the others. */
export async function thawFileSystems(root: string): Promise<void> {
  for (const point of await listMountPoints())
    if (point.startsWith(`${root}/`)) await run('fsfreeze', ['--unfreeze', point]).catch(() => {});
}
