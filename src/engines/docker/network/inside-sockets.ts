/** Unix sockets of ours among an instance's control files: read-only inside, open to connect. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, open, rm, type FileHandle } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { errorCode } from '../../../domain/kernel/unknown-error.ts';
import type { InsideSocket } from '../../contract.ts';
import { CONTROL_FOLDER } from '../container/create-options.ts';
import { SOCKETS } from '../container/control-files.ts';
import { faultOf } from '../../../docker/faults.ts';

const MAX_CONNECTIONS = 64;

export async function openInsideSocket(
  controlFolder: string,
  onConnection: (connection: net.Socket) => void,
  signal: AbortSignal,
): Promise<InsideSocket> {
  if (signal.aborted) throw faultOf(signal.reason);
  const folder = path.join(controlFolder, SOCKETS);
  const name = randomBytes(12).toString('hex');
  // A socket path holds 107 bytes; a descriptor's path is short whatever the folder's name.
  const directory = await openFolder(folder);
  const server = net.createServer({ allowHalfOpen: true }, (connection) => {
    onConnection(connection.on('error', () => {}));
  });
  server.maxConnections = MAX_CONNECTIONS;
  const close = (): void => {
    server.close();
    void rm(path.join(folder, name), { force: true })
      .catch(() => {})
      .then(() => directory.close());
  };
  try {
    server.listen(`/proc/self/fd/${directory.fd}/${name}`);
    await once(server, 'listening', { signal });
    await chmod(path.join(folder, name), 0o600);
  } catch (error) {
    close();
    throw signal.aborted ? faultOf(signal.reason) : noFolder(error);
  }
  server.on('error', close);
  return { pathInside: `${CONTROL_FOLDER}/${SOCKETS}/${name}`, close };
}

async function openFolder(folder: string): Promise<FileHandle> {
  try {
    await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      if (errorCode(error) !== 'EEXIST') throw error;
    });
    return await open(folder, 'r');
  } catch (error) {
    throw noFolder(error);
  }
}

function noFolder(cause: unknown): EngineFault {
  const text =
    'cannot create a socket in the control files of the instance; ask the operator to check the disk of the data folder';
  return new EngineFault('rejected', text, { retry: true, cause });
}
