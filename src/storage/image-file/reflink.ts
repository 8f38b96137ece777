/**
 * Copies of images at one moment, by sharing their blocks: whoever writes to the file system waits until the copy is made, some
 * milliseconds. A shell of its own stops and releases the writers, so that a server that dies meanwhile leaves nobody waiting; and the next
 * one releases whatever is still stopped.
 */
import { imageMutex } from './image-mutex.ts';
import { spawn } from 'node:child_process';
import { waitForExit, run } from '../layout.ts';
import { listMountPoints } from './mounts.ts';

const FREEZE_LIMIT_S = '20';

const SCRIPT = `
trap '' HUP INT TERM
fsfreeze --freeze "$1" || exit
timeout --signal=KILL "$4" cp --reflink=always -- "$2" "$3"
made=$?
fsfreeze --unfreeze "$1" || exit
exit $made`;

/** `image` is mounted on `mountPoint`, and perhaps elsewhere. Two copies of one are made one by one: what is stopped can't be stopped. */
export const reflink = (image: string, to: string, mountPoint: string): Promise<void> =>
  imageMutex.run(image, async () => {
    const shell = spawn('sh', ['-c', SCRIPT, 'sh', mountPoint, image, to, FREEZE_LIMIT_S], {
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const { code, stderr } = await waitForExit(shell);
    if (code !== 0) throw new Error(`a copy of ${image} could not be made at once: ${stderr}`);
  });

/** At the start of a server: writers below the root that one which died has stopped. Those of the others say that they are not. */
export async function thawFileSystems(root: string): Promise<void> {
  for (const point of await listMountPoints())
    if (point.startsWith(`${root}/`)) await run('fsfreeze', ['--unfreeze', point]).catch(() => {});
}
