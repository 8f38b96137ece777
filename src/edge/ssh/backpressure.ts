/** Back-pressure: unsent data, or a key exchange, when ssh2 buffers all writes. */
import type { Connection } from 'ssh2';
import { isExchangingKeys } from './ssh2-inside.ts';

/** Null when the connection accepts data; else resolves when to check again. */
export type Backpressure = () => Promise<void> | null;

export function makeBackpressure(ssh: Connection, gone: AbortSignal): Backpressure {
  const { _sock: socket } = ssh;
  let waiting: Promise<void> | null = null;
  const wait = (): Promise<void> =>
    new Promise((resolve) => {
      const again = (): void => {
        socket.off('drain', again);
        ssh.off('handshake', again);
        gone.removeEventListener('abort', again);
        waiting = null;
        resolve();
      };
      socket.on('drain', again);
      ssh.on('handshake', again);
      gone.addEventListener('abort', again);
    });
  return () => {
    if (gone.aborted || !(socket.writableNeedDrain || isExchangingKeys(ssh))) return null;
    return (waiting ??= wait());
  };
}
