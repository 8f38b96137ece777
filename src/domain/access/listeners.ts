/** Programs that listen inside an instance, by Linux's tables of TCP sockets. */
import { NOTEBOOK_PORT, SSH_PORT } from './port-access.ts';

export interface Listener {
  port: number;
  /** On 127.0.0.1 or ::1 only. */
  onLoopback: boolean;
}

const LISTENING = '0A';
/** Address of the name server that Docker puts into each network. */
const DOCKER_DNS = '0B00007F';
/** From here on the kernel chooses: ports of kernels of notebooks, for one. */
const FIRST_CHOSEN_PORT = 32_768;

/** `tables`: `/proc/net/tcp` and `tcp6`, with addresses in words of a little-endian machine. */
export function listenersOf(tables: string): Listener[] {
  const byPort = new Map<number, boolean>();
  for (const line of tables.split('\n')) {
    const [, local = '', , state] = line.trim().split(/\s+/);
    const [address = '', portText = ''] = local.split(':');
    if (state !== LISTENING || address === DOCKER_DNS) continue;
    const port = Number.parseInt(portText, 16);
    byPort.set(port, (byPort.get(port) ?? true) && isLoopback(address));
  }
  return [...byPort]
    .map(([port, onLoopback]) => ({ port, onLoopback }))
    .filter(
      ({ port, onLoopback }) =>
        port !== SSH_PORT && port !== NOTEBOOK_PORT && !(onLoopback && port >= FIRST_CHOSEN_PORT),
    )
    .toSorted((a, b) => a.port - b.port);
}

const isLoopback = (address: string): boolean =>
  address === '00000000000000000000000001000000' || /^(?:0{16}FFFF0000)?[0-9A-F]{6}7F$/.test(address);
