/** The tables of TCP sockets of an instance's network, read by programs of this machine. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { ContainerInspectInfo } from 'dockerode';
import type { Host } from '../client/host-facts.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';

const run = promisify(execFile);
const READ = 'cat /proc/net/tcp; cat /proc/net/tcp6 2>/dev/null || true';
const MAX_BYTES = 16 * 1024 ** 2;

/** Null where Berth can't enter networks. The engine's path names the network of this run. */
export async function readTcpTables(
  host: Pick<Host, 'facts'>,
  getRunning: () => Promise<ContainerInspectInfo>,
  signal: AbortSignal,
): Promise<string | null> {
  const { nsenter } = await host.facts(signal);
  if (nsenter === null) return null;
  const network = (await getRunning()).NetworkSettings.SandboxKey;
  if (network === '') throw new EngineFault('not_found', 'the instance is not running', { retry: false });
  try {
    const { stdout } = await run(nsenter, [`--net=${network}`, '--', 'sh', '-c', READ], {
      signal,
      maxBuffer: MAX_BYTES,
    });
    return stdout;
  } catch (cause) {
    throw new EngineFault('unreachable', 'the network of the instance could not be read', { retry: true, cause });
  }
}
