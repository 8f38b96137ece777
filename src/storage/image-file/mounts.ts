/** Mounts and loop devices of this host, as the kernel tells of them. */
import { imageMutex } from './image-mutex.ts';
import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isMissing, run } from '../layout.ts';

/** A device goes a moment after its last mount: what was written and discarded last is still on its way. */
export const DEVICE_TRIES = 250;
export const DEVICE_PAUSE_MS = 20;

/** Folders on which something is mounted, in this process's sight. */
export async function listMountPoints(): Promise<Set<string>> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  return new Set(table.split('\n').map((line) => unescapeOctal(line.split(' ')[4] ?? '')));
}

/** The kernel writes space, tab, newline and backslash as octal numbers. */
const unescapeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 8)));

/** The loop device whose backing file this is: as long as anybody has it mounted, a container included. Null when there is none. */
export async function findLoopDevice(image: string): Promise<string | null> {
  const names = (await readdir('/sys/block')).filter((name) => name.startsWith('loop'));
  // All at once: one after the other they take longer than all else that a mount needs.
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

/** Let go by somebody between when its file was opened and when it was read. */
const isDetached = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENODEV';

/**
 * Mounts an image on a folder, by the device it has already if it has one: two devices on one image would spoil it, and so they are
 * looked for and made one by one. The device goes with its last mount, whoever has that.
 */
export const mountImage = (image: string, folder: string, options: readonly string[]): Promise<void> =>
  imageMutex.run(image, async () => mountByDevice(image, folder, options, await findLoopDevice(image)));

/** An image that was made just now: no device has it, so that none is looked for among those of all disks. */
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
      // Also of one that a server which died has attached and no more.
      if (isMounted || attached === null) await detachDevice(device);
    }
    // The last of those that had it mounted let it go just then, and it may be another image's by now.
    if (tries === 0) throw new Error(`${image} could not be mounted: its device came and went`);
    await delay(DEVICE_PAUSE_MS);
  }
}

/** With its last user; at once, when it has none. */
export const detachDevice = (device: string): Promise<unknown> => run('losetup', ['-d', device]);

/**
 * Past the host's page cache, where its file system can: it would hold everything twice, and slow writers down by its own write-back.
 * Asked for as the device is made: asked for later, the kernel first waits until nothing uses it, longer than all the rest takes.
 */
async function attach(image: string): Promise<string> {
  const loop = (...how: string[]) => run('losetup', ['--find', '--show', ...how, image]);
  const { stdout } = await loop('--direct-io=on').catch(() => loop());
  return stdout.trim();
}

/** What a device tells of its size is asked anew. */
export const refreshSize = (device: string): Promise<unknown> => run('losetup', ['-c', device]);
