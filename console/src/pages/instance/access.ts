/** Lines to copy for ssh. Pure. */
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';

const SSH = 22;

export interface SshAddress {
  host: string;
  port: number;
}

/** Null until the instance has its node port. */
export function sshAddressOf({ instanceSpecInfo: { nodePorts, regionInfo } }: InstanceObject): SshAddress | null {
  const port = nodePorts.find((one) => one.port === SSH);
  if (port === undefined || port.nodePort === 0) return null;
  return { host: regionInfo.sshAddress || port.address, port: port.nodePort };
}

export const sshLineOf = ({ host, port }: SshAddress): string => `ssh -p ${port} root@${host}`;

/** A name that ssh takes as a host: editors show it in their lists. */
export const hostAliasOf = (name: string): string =>
  name
    .normalize('NFC')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}._-]+/gu, '-')
    .replaceAll(/^-+|-+$/g, '') || 'instance';

export const hostEntryOf = (name: string, { host, port }: SshAddress): string =>
  [`Host ${hostAliasOf(name)}`, `  HostName ${host}`, `  Port ${port}`, '  User root'].join('\n');
