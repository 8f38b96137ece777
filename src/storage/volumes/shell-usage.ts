import { text } from 'node:stream/consumers';
import { raceAbort } from '../../async/abort.ts';
import type { OpenShell } from '../files.ts';

const BYTES_PER_KIB = 1024;
const SCRIPT = 'cd "$1" && exec du -xsk .';

/**
 * Returns the bytes of a disk where the command runs, or null when unreadable. Files with a path of
 * more than 4,096 bytes, which `du` of BusyBox reports as errors, are not counted.
 */
export async function shellUsage(open: OpenShell, signal: AbortSignal): Promise<number | null> {
  const command = await open(SCRIPT, [], signal);
  try {
    command.stdin.end();
    command.stderr.resume();
    const [output] = await raceAbort(Promise.all([text(command.stdout), command.exited]), signal);
    const total = /^(\d+)\t\.\n$/.exec(output);
    return total === null ? null : Number(total[1]) * BYTES_PER_KIB;
  } finally {
    command.close();
  }
}
