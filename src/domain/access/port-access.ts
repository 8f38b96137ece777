/** Access to ports through the gateway. The engine publishes node ports to anybody. */

/** Ports of every instance (images/start.sh). */
export const SSH_PORT = 22;
export const NOTEBOOK_PORT = 8888;

export const portAccesses = ['owner', 'loopback', 'signedIn', 'public'] as const;
/** `loopback`: the owner, also to programs on loopback. `signedIn`: any account. */
export type PortAccess = (typeof portAccesses)[number];

export type AccessByPort = ReadonlyMap<number, PortAccess>;

/** Ports in `nodePorts` are public by default. */
export const defaultAccess = (port: number, nodePorts: readonly number[]): PortAccess =>
  port !== SSH_PORT && nodePorts.includes(port) ? 'public' : 'owner';

/** Ports that are absent from the result are the owner's alone. */
export function effectiveAccess(nodePorts: readonly number[], settings: AccessByPort): AccessByPort {
  const result = new Map<number, PortAccess>();
  for (const port of [...nodePorts, ...settings.keys()]) {
    const access = settings.get(port) ?? defaultAccess(port, nodePorts);
    if (access !== 'owner') result.set(port, access);
  }
  return result;
}

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

/** `accountId`: null for anonymous visitors. */
export function allowsAccount(access: PortAccess, accountId: string | null, ownerId: string): boolean {
  switch (access) {
    case 'public':
      return true;
    case 'signedIn':
      return accountId !== null;
    case 'owner':
    case 'loopback':
      return accountId === ownerId;
    default:
      return access satisfies never;
  }
}

/** Credential that opened a session at the gateway. */
export const sessionCredentials = ['login', 'apiKey'] as const;
export type SessionCredential = (typeof sessionCredentials)[number];
