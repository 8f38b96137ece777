/**
 * Copies atomically by shared blocks. A shell freezes and thaws, even if the server crashes.
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

/** Serialized: a frozen file system can't be frozen again. */
export const reflink = (image: string, to: string, mountPoint: string): Promise<void> =>
  imageMutex.run(image, async () => {
    const shell = spawn('sh', ['-c', SCRIPT, 'sh', mountPoint, image, to, FREEZE_LIMIT_S], {
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const { code, stderr } = await waitForExit(shell);
    if (code !== 0) throw new Error(`a copy of ${image} could not be made at once: ${stderr}`);
  });

/** Thaws file systems that a crash left frozen; `fsfreeze` fails for the others. */
export async function thawFileSystems(root: string): Promise<void> {
  for (const point of await listMountPoints())
    if (point.startsWith(`${root}/`)) await run('fsfreeze', ['--unfreeze', point]).catch(() => {});
}
