/** A socket of this machine, for Berth's own user alone. */
import { chmod, rm } from 'node:fs/promises';
import type { Server } from 'node:http';

/** One that a process which died has left is replaced. */
export async function listenAt(server: Server, path: string): Promise<void> {
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // The folder may be looked into by others.
  await chmod(path, 0o600);
}
