/** Faults of connections and listeners within an instance's network, the same for each engine. */
import { EngineFault, type FaultKind } from '../domain/regions/engine-fault.ts';
import type { InstanceAddress } from './contract.ts';

export const runEnded = (): EngineFault =>
  new EngineFault('unreachable', 'this run of the instance has ended', { retry: false });

export const noAddress = ({ host }: InstanceAddress, cause?: unknown): EngineFault =>
  new EngineFault(
    'rejected',
    `${host} is not an address of the instance; send one of its addresses, or none to listen on all`,
    { retry: false, cause },
  );

export const tooManyConnections = (): EngineFault =>
  new EngineFault('no_capacity', 'too many connections to the instance are being opened at once; try again', {
    retry: true,
  });

/** `code`: the system's, such as ECONNREFUSED. */
export function openingFault({ host, port }: InstanceAddress, code: string, cause: unknown): EngineFault {
  const fault = (kind: FaultKind, text: string, retry: boolean): EngineFault =>
    new EngineFault(kind, text, { retry, cause });
  switch (code) {
    case 'ECONNREFUSED':
      return fault('busy', `nothing listens on port ${port} of ${host} (yet)`, true);
    case 'EADDRINUSE':
      return fault('busy', `port ${port} of the instance is taken`, true);
    case 'EADDRNOTAVAIL':
      return noAddress({ host, port }, cause);
    case 'EACCES':
      return fault('rejected', `port ${port} needs rights that this run of the instance lacks; restart it`, true);
    case 'ENOTFOUND':
      return fault('not_found', `the instance cannot resolve the host name ${host}`, false);
    default:
      return fault('unreachable', `the instance has no route to port ${port} of ${host}`, true);
  }
}
