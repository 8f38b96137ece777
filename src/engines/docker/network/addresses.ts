/**
 * Dials instances on their accounts' networks. An address may belong to another instance a moment
 * after a stop. So addresses are cached only while the event stream, which reports ends, is open;
 * without the stream each dial inspects first (about 0.5 ms).
 */
import { once } from 'node:events';
import { connect, isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ContainerInspectInfo } from 'dockerode';
import { isInRanges } from '../../../domain/access/address-range.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { errorCode } from '../../../domain/kernel/unknown-error.ts';
import { faultOf } from '../../../docker/faults.ts';
import { addressOf, isRunning } from '../container/observation.ts';

export interface AddressCache {
  put(id: InstanceId, info: ContainerInspectInfo): void;
  delete(id: InstanceId): void;
  get(id: InstanceId): string | null;
  /** Clears the cache; `live` is false while the event stream is closed. */
  setLive(live: boolean): void;
}

export function makeAddressCache(): AddressCache {
  const byId = new Map<InstanceId, string>();
  let live = false;
  return {
    put(id, info) {
      const address = isRunning(info.State) ? addressOf(info) : null;
      if (live && address !== null) byId.set(id, address);
      else byId.delete(id);
    },
    delete: (id) => void byId.delete(id),
    get: (id) => byId.get(id) ?? null,
    setLive(now) {
      live = now;
      byId.clear();
    },
  };
}

export interface DialOptions {
  id: InstanceId;
  port: number;
  signal: AbortSignal;
  addresses: AddressCache;
  inspect: (id: InstanceId, signal: AbortSignal) => Promise<ContainerInspectInfo>;
  /** From the engine's host. Rejects with the code `ECONNREFUSED` where nothing listens. */
  connectTo: Connect;
}

export type Connect = (host: string, port: number, signal: AbortSignal) => Promise<Duplex>;

export async function dial(options: DialOptions): Promise<Duplex> {
  const { id, port, signal, addresses, connectTo } = options;
  const open = async (address: string): Promise<Duplex> => {
    refuseForbidden(address);
    return connectTo(address, port, signal);
  };
  const cached = addresses.get(id);
  if (cached !== null) {
    try {
      return await open(cached);
    } catch (error) {
      if (signal.aborted || isRefusal(error)) throw dialFault(error, port, signal);
      addresses.delete(id); // no route: the instance may have ended or restarted
    }
  }
  const info = await options.inspect(id, signal);
  const address = isRunning(info.State) ? addressOf(info) : null;
  if (address === null) throw new EngineFault('not_found', 'the instance is not running', { retry: false });
  addresses.put(id, info);
  try {
    return await open(address);
  } catch (error) {
    throw dialFault(error, port, signal);
  }
}

const isRefusal = (error: unknown): boolean => errorCode(error) === 'ECONNREFUSED';

function dialFault(error: unknown, port: number, signal: AbortSignal): EngineFault {
  if (error instanceof EngineFault) return error;
  if (signal.aborted) return faultOf(signal.reason);
  const options = { retry: true, cause: error };
  // Just after a start the address does not answer ARP yet.
  return isRefusal(error) || errorCode(error) === 'EHOSTUNREACH'
    ? new EngineFault('busy', `nothing listens on port ${port} of the instance yet`, options)
    : new EngineFault('unreachable', `port ${port} of the instance cannot be reached`, options);
}

/** Loopback, link-local (cloud metadata), multicast: never dialled, whatever an engine reports. */
const FORBIDDEN = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/3',
  '::/127',
  'fe80::/10',
  'ff00::/8',
] as const;

function refuseForbidden(host: string): void {
  if (isIP(host) === 0 || isInRanges(FORBIDDEN, host)) {
    const text = `the engine reports the address ${host} for the instance, which no instance can have`;
    throw new EngineFault('rejected', text, { retry: false });
  }
}

/** From this machine, whose networks are the engine's. */
export const connectHere: Connect = async (host, port, signal) => {
  signal.throwIfAborted();
  const socket = connect({ host, port, noDelay: true });
  try {
    await once(socket, 'connect', { signal });
    return socket;
  } catch (error) {
    socket.on('error', () => {}).destroy();
    throw error;
  }
};
