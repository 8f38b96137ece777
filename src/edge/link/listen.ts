import { chmod, rm } from 'node:fs/promises';
import type { Server } from 'node:http';

/** Replaces the socket of a process that died. Only Berth's own user may open the new one. */
export async function listenAt(server: Server, path: string): Promise<void> {
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
  await chmod(path, 0o600);
}
