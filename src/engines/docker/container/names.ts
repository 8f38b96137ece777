/**
 * What a name means in an instance: as its own files say, which the engine keeps for it, and else as the name servers do that those
 * files name. The host's own names are not the instance's.
 */
import { open } from 'node:fs/promises';
import net from 'node:net';

/** Addresses; or, when there are none, under which names which servers are to be asked, in this order. */
export interface Meaning {
  addresses: string[];
  names: string[];
  servers: string[];
}

/** They are the instance's to write, so it has no say in how much of them is read. */
const READ_BYTES = 64 * 1024;

export async function readName(name: string, files: { hosts: string; resolvConf: string }): Promise<Meaning> {
  if (net.isIP(name) !== 0) return { addresses: [name], names: [], servers: [] };
  const [hosts, resolvConf] = await Promise.all([readStart(files.hosts), readStart(files.resolvConf)]);
  return meaningOf(name, hosts, resolvConf);
}

/** Pure. */
export function meaningOf(name: string, hosts: string, resolvConf: string): Meaning {
  const wanted = name.toLowerCase();
  const addresses = linesOf(hosts).flatMap(([address = '', ...names]) =>
    net.isIP(address) !== 0 && names.some((one) => one.toLowerCase() === wanted) ? [address] : [],
  );
  if (addresses.length === 0 && wanted === 'localhost') addresses.push('127.0.0.1', '::1');
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
