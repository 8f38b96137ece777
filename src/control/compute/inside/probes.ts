/** Probes of the software inside, through the engine. Null means unknown, not false. */
import { addAbortSignal, type Duplex } from 'node:stream';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { SSH_PORT } from '../../../domain/access/port-access.ts';
import type { Engine } from '../../../engines/contract.ts';
import type { Time } from '../../kernel/ports.ts';

const BANNER_DEADLINE_MS = 2_000;

export interface ProbeTarget {
  engine: Engine;
  id: InstanceId;
  time: Time;
  signal: AbortSignal;
}

/** False if nothing listens; null if unknown. */
async function dial({ engine, id, time, signal }: ProbeTarget, port: number): Promise<Duplex | false | null> {
  try {
    return await engine.dial(id, port, AbortSignal.any([signal, time.deadline(BANNER_DEADLINE_MS)]));
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EngineFault) return error.kind === 'busy' ? false : null;
    if (error instanceof Error && error.name === 'TimeoutError') return false;
    throw error;
  }
}

export async function acceptsConnection(inside: ProbeTarget, port: number): Promise<boolean | null> {
  const connection = await dial(inside, port);
  if (!connection) return connection;
  connection.destroy();
  return true;
}

/** Waits for sshd's banner: a listening port alone proves nothing. */
export async function answersSsh(inside: ProbeTarget): Promise<boolean | null> {
  const connection = await dial(inside, SSH_PORT);
  if (!connection) return connection;
  addAbortSignal(inside.signal, connection);
  return new Promise<boolean>((resolve) => {
    const end = (answer: boolean) => {
      cancel();
      connection.destroy();
      resolve(answer);
    };
    const cancel = inside.time.after(BANNER_DEADLINE_MS, () => end(false));
    connection.once('data', (bytes: Buffer) => end(bytes.toString('latin1').startsWith('SSH-')));
    connection.once('error', () => end(false));
    connection.once('close', () => end(false));
  });
}
