/** Mounts and loop devices of this host. */
import { imageMutex } from './image-mutex.ts';
import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isMissing, run } from '../layout.ts';

/** A device detaches shortly after the last unmount, when pending writes and discards are done. */
export const DEVICE_TRIES = 250;
export const DEVICE_PAUSE_MS = 20;

/** Mount points in this process's namespace. */
export async function listMountPoints(): Promise<Set<string>> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  return new Set(table.split('\n').map((line) => unescapeOctal(line.split(' ')[4] ?? '')));
}

/** The kernel escapes space, tab, newline and backslash in octal. */
const unescapeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 8)));

/** Loop device backed by the image; it exists while any mount does, also in a container. */
export async function findLoopDevice(image: string): Promise<string | null> {
  const names = (await readdir('/sys/block')).filter((name) => name.startsWith('loop'));
  // In parallel: sequential reads would take longer than the mount itself.
  const images = await Promise.all(names.map(readBackingFile));
  const found = names[images.indexOf(image)];
  return found === undefined ? null : `/dev/${found}`;
}

async function readBackingFile(name: string): Promise<string | null> {
  try {
    return (await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8')).trimEnd();
  } catch (error) {
    if (isMissing(error) || isDetached(error)) return null;
    throw error;
  }
}

/** Detached between open and read. */
const isDetached = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENODEV';

/**
 * Mounts an image, by its existing loop device if any. Serialized by image, since two devices on
 * one image would corrupt it. The device detaches with the last mount.
 */
export const mountImage = (image: string, folder: string, options: readonly string[]): Promise<void> =>
  imageMutex.run(image, async () => mountByDevice(image, folder, options, await findLoopDevice(image)));

/** Mounts an image just created: skips the search for a device. */
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
      // Also covers a device that a crashed server attached but never mounted.
      if (isMounted || attached === null) await detachDevice(device);
    }
    // The device was detached meanwhile, and may now belong to another image.
    if (tries === 0) throw new Error(`${image} could not be mounted: its device came and went`);
    await delay(DEVICE_PAUSE_MS);
  }
}

/** Detaches after the last use; at once if unused. */
export const detachDevice = (device: string): Promise<unknown> => run('losetup', ['-d', device]);

/**
 * Prefers direct I/O, which avoids double caching and double write-back. Set at creation: a later
 * change waits until the device is idle.
 */
async function attach(image: string): Promise<string> {
  const loop = (...how: string[]) => run('losetup', ['--find', '--show', ...how, image]);
  const { stdout } = await loop('--direct-io=on').catch(() => loop());
  return stdout.trim();
}

/** Makes the kernel re-read the image's size. */
export const refreshSize = (device: string): Promise<unknown> => run('losetup', ['-c', device]);
