/** Command in a helper container, with its streams. */
import { PassThrough, type Duplex, type Readable, type Writable } from 'node:stream';
import type Docker from 'dockerode';
import { setTimeout as sleep } from 'node:timers/promises';
import { drained } from '../async/abort.ts';
import { EngineFault } from '../domain/regions/engine-fault.ts';
import type { DockerClient } from './docker-client.ts';
import { faultOf } from './faults.ts';
import { inputOf, makeDemultiplexer } from './streams.ts';

export interface HelperCommand {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  /** Exit code. Rejects when the engine no longer tells. */
  exited: Promise<number>;
  /** Leaves the command, whose input ends. */
  close(): void;
}

const ANSWER_MS = 30_000;
const POLL_MS = 20;

export async function openHelperCommand(
  client: DockerClient,
  container: string,
  command: readonly string[],
  signal: AbortSignal,
): Promise<HelperCommand> {
  const { docker, call } = client;
  const request = { Cmd: [...command], AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: false };
  const exec = await call(signal, (abortSignal) => docker.getContainer(container).exec({ ...request, abortSignal }));
  // Its own signal: that of the caller would end the connection, too.
  const socket = await call(signal, () => exec.start({ hijack: true, Detach: false, Tty: false }));
  return new Command(client, exec, socket);
}

class Command implements HelperCommand {
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly stdin: Writable;
  readonly exited: Promise<number>;
  readonly #client: DockerClient;
  readonly #exec: Docker.Exec;
  readonly #socket: Duplex;

  constructor(client: DockerClient, exec: Docker.Exec, socket: Duplex) {
    this.#client = client;
    this.#exec = exec;
    this.#socket = socket.on('error', () => {});
    this.stdin = inputOf(socket, { ends: true });
    for (const stream of [this.stdout, this.stderr]) stream.on('error', () => {});
    this.exited = this.#run();
    this.exited.catch(() => {});
  }

  close(): void {
    this.#socket.destroy();
    this.stdout.destroy();
    this.stderr.destroy();
  }

  async #run(): Promise<number> {
    try {
      let full: PassThrough | null = null;
      const take = makeDemultiplexer((source, bytes) => {
        const stream = this[source];
        if (!stream.destroyed && !stream.write(bytes)) full = stream;
      });
      for await (const chunk of this.#socket) {
        take(chunk);
        if (full !== null) await drained(full);
        full = null;
      }
      return await this.#exitCode();
    } catch (error) {
      throw faultOf(error);
    } finally {
      this.stdout.end();
      this.stderr.end();
      this.stdin.destroy();
      this.#socket.destroy();
    }
  }

  /** The streams end before the exit code is known. */
  async #exitCode(): Promise<number> {
    const signal = AbortSignal.timeout(ANSWER_MS);
    for (;;) {
      const { Running, ExitCode } = await this.#client.call(signal, (abortSignal) =>
        this.#exec.inspect({ abortSignal }),
      );
      if (!Running && ExitCode !== null) return ExitCode;
      if (this.#socket.errored)
        throw new EngineFault('unreachable', 'the connection of a command was lost', { retry: true });
      await sleep(POLL_MS);
    }
  }
}
