/**
 * Clients that send or read one byte a second, in a process of their own: three in five send a head
 * slowly, one a body, one reads a large answer. Sends `there` once all are connected, and the
 * number connected whenever asked; ends with its parent.
 *
 *     fork('slow-clients.ts', [count, gateway port, path of the instance's first slow port, …])
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { constants, setPriority } from 'node:os';

const [countText, portText, ...paths] = process.argv.slice(2);
const count = Number(countText);
// Low priority: the load on the gateway is tested, not the load on the machine.
setPriority(constants.priority.PRIORITY_LOW);
const EVERY_MS = 1_000;
const PARTS = 20;

interface Slow {
  socket: Socket;
  isThere: boolean;
  /** Sends one more byte. */
  step: () => void;
}

function start(n: number): Slow {
  const path = paths[n % paths.length] ?? '/';
  const socket = connect({ port: Number(portText), host: '127.0.0.1' });
  const slow: Slow = { socket, isThere: false, step: () => {} };
  socket.on('error', () => {});
  socket.once('connect', () => (slow.isThere = true));
  socket.once('close', () => (slow.isThere = false));
  const kind = n % 5;
  if (kind < 3) {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: h\r\nX-Slow: `);
    slow.step = (): void => void socket.write('x');
    socket.resume();
  } else if (kind < 4) {
    socket.write(`POST ${path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n`);
    slow.step = (): void => void socket.write('1\r\nx\r\n');
    socket.resume();
  } else {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: h\r\n\r\n`);
    socket.on('readable', () => {});
    slow.step = (): void => void socket.read(1);
  }
  return slow;
}

const all: Slow[] = [];
const connected = (): number => all.filter(({ isThere }) => isThere).length;

for (let n = 0; n < count; n += 1) {
  all.push(start(n));
  if (n % 100 === 99) await new Promise((resolve) => setTimeout(resolve, 20));
}

let part = 0;
setInterval(() => {
  part = (part + 1) % PARTS;
  for (let n = part; n < all.length; n += PARTS) {
    const slow = all[n];
    // Reconnects a client that was cut off.
    if (slow?.socket.closed === true) all[n] = start(n);
    else slow?.step();
  }
}, EVERY_MS / PARTS);

const reported = setInterval(() => {
  if (connected() < count) return;
  clearInterval(reported);
  process.send?.({ connected: connected() });
}, 50);
process.on('message', () => process.send?.({ connected: connected() }));
process.on('disconnect', () => process.exit(0));
