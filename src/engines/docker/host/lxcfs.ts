/** The lxcfs of the host: files in the form of `/proc`, with the limits of the reading process. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../../../domain/kernel/unknown-error.ts';

const ANSWER_MS = 2_000;

/** `folder` takes the place of `/proc`. `device`: as in mountinfo, another after each start. */
export type Lxcfs = { folder: string; device: string } | { whyNot: string };

const away = 'its host runs no lxcfs; the operator can install it (apt-get install lxcfs)';
const dead =
  'the lxcfs of its host does not answer; the operator can start it again (umount --lazy /var/lib/lxcfs; systemctl restart lxcfs)';

/** Asks once at a time: a lxcfs that hangs holds a thread of this process. */
export function makeLxcfs(root: string): () => Promise<Lxcfs> {
  const folder = join(root, 'proc');
  let asking: Promise<Lxcfs> | undefined;

  async function ask(): Promise<Lxcfs> {
    try {
      // A stat may come from the kernel's cache.
      await using file = await open(`${folder}/meminfo`);
      return { folder, device: deviceText((await file.stat()).dev) };
    } catch (error) {
      return { whyNot: errorCode(error) === 'ENOENT' ? away : dead };
    }
  }

  return () => {
    asking ??= ask().finally(() => (asking = undefined));
    return Promise.race([asking, sleep(ANSWER_MS, { whyNot: dead }, { ref: false })]);
  };
}

const deviceText = (device: number): string =>
  `${Math.floor(device / 256) & 0xfff}:${(device & 0xff) + (Math.floor(device / 4096) & 0xfff00)}`;
