/** Programs that listen inside an instance, by Linux's tables of TCP sockets. */
import { NOTEBOOK_PORT, SSH_PORT } from './port-access.ts';

export interface Listener {
  port: number;
  /** On 127.0.0.1 or ::1 only. */
  onLoopback: boolean;
}

const LISTENING = '0A';
const LOOPBACK = /^(?:0100007F|0{16}FFFF00000100007F|0{24}01000000)$/;
/** Addresses that the gateway does not dial, as of the name server that Docker puts there. */
const OTHER_LOOPBACK = /^(?:0{16}FFFF0000)?[0-9A-F]{6}7F$/;
/** From here on the kernel chooses: ports of kernels of notebooks, for one. */
const FIRST_CHOSEN_PORT = 32_768;

/** `tables`: `/proc/net/tcp` and `tcp6`, with addresses in words of a little-endian machine. */
export function listenersOf(tables: string, hasNotebook: boolean): Listener[] {
  const byPort = new Map<number, boolean>();
  for (const line of tables.split('\n')) {
    const [, local = '', , state] = line.trim().split(/\s+/);
    const [address = '', portText = ''] = local.split(':');
    const onLoopback = LOOPBACK.test(address);
    if (state !== LISTENING || (!onLoopback && OTHER_LOOPBACK.test(address))) continue;
    const port = Number.parseInt(portText, 16);
    byPort.set(port, (byPort.get(port) ?? true) && onLoopback);
  }
  return [...byPort]
    .map(([port, onLoopback]) => ({ port, onLoopback }))
    .filter(
      ({ port, onLoopback }) =>
        port !== SSH_PORT && !(hasNotebook && port === NOTEBOOK_PORT) && !(onLoopback && port >= FIRST_CHOSEN_PORT),
    )
    .toSorted((a, b) => a.port - b.port);
}
