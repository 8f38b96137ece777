/**
 * Where instances can be dialled: their addresses on their accounts' networks, and connections to them.
 *
 * An address may be another instance's a moment after this one stopped, so it is claimIdempotencyKey only while the stream of events is
 * open, which says when a container ends; without the stream each dial asks the engine first (about half a millisecond).
 */
import { BlockList, connect, isIP, isIPv6, type Socket } from 'node:net';
import type { ContainerInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { InstanceId } from '../../../domain/ids.ts';
import { faultOf } from '../client/faults.ts';
import { addressOf, isRunning } from '../container/observation.ts';

export interface Addresses {
  learn(id: InstanceId, info: ContainerInspectInfo): void;
  forget(id: InstanceId): void;
  /** Null when it is to be asked for. */
  recall(id: InstanceId): string | null;
  /** Whether ends of containers are heard of from now on. What was learnt before is forgotten. */
  setLive(live: boolean): void;
}

export function makeAddresses(): Addresses {
  const byId = new Map<InstanceId, string>();
  let live = false;
  return {
    learn(id, info) {
      const address = isRunning(info.State) ? addressOf(info) : null;
      if (live && address !== null) byId.set(id, address);
      else byId.delete(id);
    },
    forget: (id) => void byId.delete(id),
    recall: (id) => byId.get(id) ?? null,
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
  addresses: Addresses;
  get: (id: InstanceId, signal: AbortSignal) => Promise<ContainerInspectInfo>;
}

/** `busy` when nothing listens there (yet), `not_found` when it does not run. */
export async function dial(options: DialOptions): Promise<Socket> {
  const { id, port, signal, addresses } = options;
  const claimIdempotencyKey = addresses.recall(id);
  if (claimIdempotencyKey !== null) {
    try {
      return await open(claimIdempotencyKey, port, signal);
    } catch (error) {
      if (signal.aborted || isRefusal(error)) throw dialFault(error, port, signal);
      addresses.forget(id); // no way there: it may have ended just now, or run anew
    }
  }
  const info = await options.get(id, signal);
  const address = isRunning(info.State) ? addressOf(info) : null;
  if (address === null) throw new EngineFault('not_found', 'the instance does not run', { retry: false });
  addresses.learn(id, info);
  try {
    return await open(address, port, signal);
  } catch (error) {
    throw dialFault(error, port, signal);
  }
}

const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;

const isRefusal = (error: unknown): boolean => hasCode(error, 'ECONNREFUSED');

function dialFault(error: unknown, port: number, signal: AbortSignal): EngineFault {
  if (error instanceof EngineFault) return error;
  if (signal.aborted) return faultOf(signal.reason);
  // In the first moment after a start nobody answers for the address, though the container runs.
  if (isRefusal(error) || hasCode(error, 'EHOSTUNREACH'))
    return new EngineFault('busy', `nothing listens on port ${port} of the instance yet`, {
      retry: true,
      cause: error,
    });
  return new EngineFault('unreachable', `port ${port} of the instance can not be reached`, {
    retry: true,
    cause: error,
  });
}

/** This machine itself, and what answers for a cloud's machines: whatever an engine says, no instance is there. */
const notInstances = new BlockList();
for (const [net, bits] of [
  ['0.0.0.0', 8],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['224.0.0.0', 3],
] as const)
  notInstances.addSubnet(net, bits, 'ipv4');
for (const [net, bits] of [
  ['::', 127],
  ['fe80::', 10],
  ['ff00::', 8],
] as const)
  notInstances.addSubnet(net, bits, 'ipv6');

function open(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  if (isIP(host) === 0 || notInstances.check(host, isIPv6(host) ? 'ipv6' : 'ipv4')) {
    const text = `the engine says that the instance is at ${host}, where no instance can be`;
    return Promise.reject(new EngineFault('rejected', text, { retry: false }));
  }
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  if (signal.aborted) {
    reject(signal.reason);
    return promise;
  }
  const socket = connect({ host, port, noDelay: true });
  const settle = (): void => {
    signal.removeEventListener('abort', onAbort);
    socket.off('error', onError).off('connect', onConnect);
  };
  const onAbort = (): void => {
    settle();
    socket.on('error', () => {}).destroy();
    reject(signal.reason);
  };
  const onError = (error: Error): void => {
    settle();
    reject(error);
  };
  const onConnect = (): void => {
    settle();
    resolve(socket);
  };
  socket.once('error', onError).once('connect', onConnect);
  signal.addEventListener('abort', onAbort, { once: true });
  return promise;
}
