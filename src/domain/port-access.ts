/** Who may come to a port of an instance through the gateway. A node port is a door of the engine's own, which nothing here closes. */
import { SSH_PORT } from './ports.ts';

export const portAccesses = ['owner', 'signedIn', 'public'] as const;
/** `signedIn`: any account of this installation. */
export type PortAccess = (typeof portAccesses)[number];

/** By port. Of settings: what differs from the default. */
export type AccessByPort = ReadonlyMap<number, PortAccess>;

/** Where nothing is set: ports in `nodePorts` are everybody's, and all others the owner's. */
export const defaultAccess = (port: number, nodePorts: readonly number[]): PortAccess =>
  port !== SSH_PORT && nodePorts.includes(port) ? 'public' : 'owner';

/** As it holds. A port that is not in it is the owner's alone. */
export function effectiveAccess(nodePorts: readonly number[], settings: AccessByPort): AccessByPort {
  const held = new Map<number, PortAccess>();
  for (const port of [...nodePorts, ...settings.keys()]) {
    const access = settings.get(port) ?? defaultAccess(port, nodePorts);
    if (access !== 'owner') held.set(port, access);
  }
  return held;
}

/** The settings after a wish; what is the default is not kept as a setting. */
export function changeAccess(
  settings: AccessByPort,
  { port, access }: { port: number; access: PortAccess | 'default' },
  nodePorts: readonly number[],
): AccessByPort {
  const next = new Map(settings);
  if (access === 'default' || access === defaultAccess(port, nodePorts)) next.delete(port);
  else next.set(port, access);
  return next;
}

/** Whether an account, or one who is nobody (null), comes in by what it is. */
export function allowsAccount(access: PortAccess, accountId: string | null, ownerId: string): boolean {
  switch (access) {
    case 'public':
      return true;
    case 'signedIn':
      return accountId !== null;
    case 'owner':
      return accountId === ownerId;
    default:
      return access satisfies never;
  }
}
