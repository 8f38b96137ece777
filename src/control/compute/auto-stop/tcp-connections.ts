/** TCP connections inside an instance to given ports, as Linux lists them. */
import type { ProbeTarget } from '../inside/probes.ts';

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6'];
const ESTABLISHED = '01';
/** Engines truncate here: such a table is incomplete. */
const OUTPUT_BYTES = 1024 * 1024;

export interface Connection {
  port: number;
  ends: string;
}

/** Null if the text is not a complete table. */
export function readConnections(table: string, ports: ReadonlySet<number>): Connection[] | null {
  if (!table.includes('local_address') || Buffer.byteLength(table) >= OUTPUT_BYTES) return null;
  return table.split('\n').flatMap((line) => {
    const [, local = '', remote = '', state = ''] = line.trim().split(/\s+/);
    const port = Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16);
    return state === ESTABLISHED && ports.has(port) ? [{ port, ends: `${local} ${remote}` }] : [];
  });
}

/** Returns connections present at both reads, so that our own ssh probes don't count. */
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
  // Without IPv6 the second file is missing, and `cat` fails after printing the first.
  const { stdout } = await engine.exec(id, ['cat', ...TABLES], signal);
  const connections = readConnections(stdout, ports);
  if (connections === null) throw new Error('the connections of the instance could not be read');
  return connections;
}
