/** Who is connected to an instance, read from its own table of TCP connections: ssh, and the ports it publishes. */
import type { ProbeTarget } from '../inside/probes.ts';

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6'];
const ESTABLISHED = '01';
/** An engine cuts what a command says here; of what is cut off nobody knows. */
const OUTPUT_BYTES = 1024 * 1024;

export interface Connection {
  port: number;
  /** Both ends, which name it while it lasts. */
  ends: string;
}

/** The established connections to these ports; null when it is no such table, or a part of one. Pure. */
export function readConnections(table: string, ports: ReadonlySet<number>): Connection[] | null {
  if (!table.includes('local_address') || Buffer.byteLength(table) >= OUTPUT_BYTES) return null;
  return table.split('\n').flatMap((line) => {
    const [, local = '', remote = '', state = ''] = line.trim().split(/\s+/);
    const port = Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16);
    return state === ESTABLISHED && ports.has(port) ? [{ port, ends: `${local} ${remote}` }] : [];
  });
}

/** Those that were there at two looks so long apart: our own probes of ssh are over by then. Throws when it can't be told. */
export async function lastingConnections(
  inside: ProbeTarget,
  ports: ReadonlySet<number>,
  apartMs: number,
): Promise<Connection[]> {
  const first = await look(inside, ports);
  if (first.length === 0) return first;
  await inside.time.sleep(apartMs, inside.signal);
  const second = await look(inside, ports);
  return second.filter(({ ends }) => first.some((before) => before.ends === ends));
}

async function look({ engine, id, signal }: ProbeTarget, ports: ReadonlySet<number>): Promise<Connection[]> {
  // Without IPv6 there is no second table, and the command fails after it has said the first.
  const { stdout } = await engine.exec(id, ['cat', ...TABLES], signal);
  const connections = readConnections(stdout, ports);
  if (connections === null) throw new Error('its table of connections could not be read');
  return connections;
}
