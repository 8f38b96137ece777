/**
 * # Connections on an engine that is reached by its API alone
 *
 * A container in the network of the engine's host relays each connection by a command of its own:
 * standard input and output are the connection. The container listens on nothing, so nobody
 * reaches an instance through it but callers of the engine's API, who are root of that host anyway.
 * It has no rights, no files and no user of its own, and ends a minute after the last connection.
 *
 * A container for each instance, within its network, would be one more thing to follow over each
 * start and stop, and would reach ports that listen on loopback only.
 */
import { Duplex } from 'node:stream';
import { withDeadline } from '../../../async/abort.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { runInHelper, type EnsureImage, type HelperContainer } from '../../../docker/helper-container.ts';
import type { HelperCommand } from '../../../docker/helper-command.ts';
import { labelsOf } from '../../labels.ts';
import { readProcessId } from '../../process-id.ts';

export interface RelayConfig {
  /** Image with a shell and the tools of BusyBox. */
  helperImage: string;
}

const IDLE_S = 60;
const CONNECT_S = 5;
/** Also for the start of the container. */
const DEADLINE_MS = 60_000;
const KILL_MS = 30_000;
const NOBODY = '65534:65534';

/**
 * Writes the process id of `nc` once it is connected, which the kernel's table says by the socket's
 * inode. The id also lets Berth end a connection that its peer keeps open.
 */
const RELAY = String.raw`
exec 3<&0
nc -w ${CONNECT_S} "$1" "$2" <&3 &
pid=$!
connected() { printf '\001%s\002' "$pid" >&2; }
isConnected() {
  for fd in /proc/$pid/fd/*; do
    inode=$(readlink "$fd") || continue
    case $inode in socket:*) ;; *) continue ;; esac
    inode=\${inode#socket:?}
    grep -Eq "^ *[0-9]+: [0-9A-F:]+ [0-9A-F:]+ (01|04|05|08|09) .* \${inode%?} " /proc/net/tcp && return
  done
  return 1
}
while kill -0 "$pid" 2>/dev/null; do
  if isConnected; then
    connected
    wait "$pid"
    exit
  fi
  sleep 0.01
done
wait "$pid" && connected
`.replaceAll('\\${', '${');

export type ConnectThere = (host: string, port: number, signal: AbortSignal) => Promise<Duplex>;

export function makeRelay(
  client: DockerClient,
  installation: string,
  { helperImage, ensureImage }: RelayConfig & { ensureImage: EnsureImage },
): ConnectThere {
  const helper: HelperContainer = {
    name: `berth-relay-${installation.slice(0, 8)}`,
    image: helperImage,
    labels: labelsOf(installation, { kind: 'helper', id: '', ownerId: '', generation: 0 }),
    idleS: IDLE_S,
    user: NOBODY,
    capabilities: [],
    network: 'host',
    volumes: {},
  };
  const run = (script: string, args: readonly string[], signal: AbortSignal): Promise<HelperCommand> =>
    runInHelper(client, helper, { command: ['sh', '-c', script, 'sh', ...args], ensureImage, signal });

  async function kill(pid: number): Promise<void> {
    const command = await run('kill "$1"', [String(pid)], AbortSignal.timeout(KILL_MS));
    await command.exited;
  }

  return async (host, port, signal) => {
    const until = withDeadline(signal, DEADLINE_MS);
    const command = await run(RELAY, [host, String(port)], until);
    const abort = (): void => command.close();
    until.addEventListener('abort', abort);
    try {
      const pid = await readProcessId(command.stderr);
      until.throwIfAborted();
      if (pid === null) throw await refusalOf(command, helperImage);
      return new RelayedConnection(command, () => void kill(pid).catch(() => {}));
    } finally {
      until.removeEventListener('abort', abort);
    }
  };
}

const NO_PROGRAM = 127;

/** `nc` has one exit code for all failures to connect. */
async function refusalOf({ exited }: HelperCommand, image: string): Promise<Error> {
  const code = await exited;
  return code === NO_PROGRAM
    ? new EngineFault(
        'rejected',
        `the image ${image} of helper containers has no nc; name one with the tools of BusyBox`,
        {
          retry: true,
        },
      )
    : Object.assign(new Error(`the relay ended with ${code}`), { code: 'ECONNREFUSED' });
}

class RelayedConnection extends Duplex {
  readonly #command: HelperCommand;
  readonly #kill: () => void;
  #isOver = false;

  constructor(command: HelperCommand, kill: () => void) {
    super({ allowHalfOpen: false });
    this.#command = command;
    this.#kill = kill;
    const { stdout, stderr, exited } = command;
    stderr.resume();
    stdout.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) stdout.pause();
    });
    stdout.on('end', () => this.push(null));
    exited.then(
      () => (this.#isOver = true),
      (error: Error) => this.destroy(error),
    );
    this.on('error', () => {});
  }

  override _read(): void {
    this.#command.stdout.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#command.stdin.write(chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    // All input is written; its end may come after that of the command.
    this.#command.stdin.end();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#command.close();
    // A server that ignores the end of its input would keep the command.
    if (!this.#isOver) this.#kill();
    done(error);
  }
}
