/**
 * Clients that send or read a byte a second, as a process of its own: three in five send a head so, one in five a body, one in five reads so
 * what is large. Says `there` on its channel once all are connected, and each time it is asked how many are, and ends with its parent.
 *
 *     fork('slow-clients.ts', [count, port of the gateway, path of the instance's first slow port, …])
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { constants, setPriority } from 'node:os';

const [countText, portText, ...paths] = process.argv.slice(2);
const count = Number(countText);
// What they take of the gateway is the question, and not what they take of the machine.
setPriority(constants.priority.PRIORITY_LOW);
const EVERY_MS = 1_000;
const PARTS = 20;

interface Slow {
  socket: Socket;
  isThere: boolean;
  /** A byte more. */
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

let turn = 0;
setInterval(() => {
  turn = (turn + 1) % PARTS;
  for (let n = turn; n < all.length; n += PARTS) {
    const slow = all[n];
    // One that was shown out comes again.
    if (slow?.socket.closed === true) all[n] = start(n);
    else slow?.step();
  }
}, EVERY_MS / PARTS);

const told = setInterval(() => {
  if (connected() < count) return;
  clearInterval(told);
  process.send?.({ connected: connected() });
}, 50);
process.on('message', () => process.send?.({ connected: connected() }));
process.on('disconnect', () => process.exit(0));
