/** Resolves a name by the instance's hosts file, then its resolv.conf; the engine stores both. */
import { open } from 'node:fs/promises';
import net from 'node:net';

/** Addresses; or, without any, full names to query at these servers, both in order. */
export interface NameTarget {
  addresses: string[];
  names: string[];
  servers: string[];
}

/** The instance writes the files, so the read is bounded. */
const READ_BYTES = 64 * 1024;

export async function resolveName(name: string, files: { hosts: string; resolvConf: string }): Promise<NameTarget> {
  if (net.isIP(name) !== 0) return { addresses: [name], names: [], servers: [] };
  const [hosts, resolvConf] = await Promise.all([readStart(files.hosts), readStart(files.resolvConf)]);
  return nameTargetOf(name, hosts, resolvConf);
}

export function nameTargetOf(name: string, hosts: string, resolvConf: string): NameTarget {
  const lowerCased = name.toLowerCase();
  const addresses = linesOf(hosts).flatMap(([address = '', ...names]) =>
    net.isIP(address) !== 0 && names.some((alias) => alias.toLowerCase() === lowerCased) ? [address] : [],
  );
  if (addresses.length === 0 && lowerCased === 'localhost') addresses.push('127.0.0.1', '::1');
  const settings = linesOf(resolvConf);
  const servers = settings.flatMap(([key, address = '']) =>
    key === 'nameserver' && net.isIP(address) !== 0 ? [address] : [],
  );
  const domains = settings.findLast(([key]) => key === 'search')?.slice(1) ?? [];
  const [absolute, longer] = [[name], domains.slice(0, 6).map((domain) => `${name}.${domain}`)];
  const names = name.endsWith('.')
    ? absolute
    : name.includes('.')
      ? [...absolute, ...longer]
      : [...longer, ...absolute];
  return { addresses: addresses.slice(0, 8), names, servers: servers.slice(0, 3) };
}

const linesOf = (text: string): string[][] =>
  text.split('\n').map((line) => (line.split('#')[0] ?? '').trim().split(/\s+/));

async function readStart(path: string): Promise<string> {
  const file = await open(path).catch(() => null);
  if (file === null) return '';
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(READ_BYTES), 0, READ_BYTES, 0);
    return buffer.toString('utf8', 0, bytesRead);
  } catch {
    return '';
  } finally {
    await file.close();
  }
}
