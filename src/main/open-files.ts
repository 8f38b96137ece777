/** Divides the limit of open files between listeners: a flood of one takes none from another. */
import { readFile } from 'node:fs/promises';
import type { Config } from './config.ts';

/** Files for store, control and engine; a quarter if the limit is small. */
const RESERVED_FILES = 1_024;
const MIN_RESERVED_FILES = 64;

/** Files for the built-in ssh server; a quarter of the rest if the limit is small. */
const MAX_SSH_FILES = 8_192;

const MAX_API_CONNECTIONS = 20_000;

/** A client connection may need a second file, to an instance, the engine or a disk. */
const FILES_PER_CONNECTION = 2;

export interface FileShares {
  apiConnections: number;
  gatewayConnections: number;
  sshFiles: number;
}

/**
 * Pure. The API gets a quarter of the files that the reserve and ssh leave, the gateway the rest.
 * A process of one role has no share of the listeners it lacks.
 */
export function shareFiles(openFiles: number, role: Config['role']): FileShares {
  const reserved = Math.max(MIN_RESERVED_FILES, Math.min(RESERVED_FILES, Math.floor(openFiles / 4)));
  const forClients = openFiles - reserved;
  const ssh = role === 'api' ? 0 : Math.max(1, Math.min(MAX_SSH_FILES, Math.floor(forClients / 4)));
  const forListeners = forClients - ssh;
  const ofApi = { all: forListeners / 4, api: forListeners, gateway: 0 }[role];
  const api = Math.min(MAX_API_CONNECTIONS * FILES_PER_CONNECTION, ofApi);
  return {
    apiConnections: Math.max(1, Math.floor(api / FILES_PER_CONNECTION)),
    gatewayConnections: Math.max(1, Math.floor((forListeners - api) / FILES_PER_CONNECTION)),
    sshFiles: ssh,
  };
}

/** Unlimited if the system reports no limit. Node raised the soft limit to the hard one. */
export async function readFileShares(role: Config['role']): Promise<FileShares> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const text = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return shareFiles(text === undefined ? Infinity : Number(text), role);
}
