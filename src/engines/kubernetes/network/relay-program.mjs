/**
 * Program in the network container of a Pod (`network-container.ts`). Connects and listens in the
 * Pod's network for Berth, whose end is `pod-relay.ts`, over its input and output. Ends with its
 * input, and when Berth is silent: another relay must get the ports of one whose connection was
 * lost.
 *
 * Plain JavaScript, sent with `multiplexer.mjs` when it starts: both ends are of one version of
 * Berth, whatever the version in the image.
 */
import { lookup } from 'node:dns/promises';
import net from 'node:net';

/** @typedef {typeof import('./multiplexer.mjs')} Protocol */
/** @typedef {{ connect: number, host: string, port: number }} ConnectRequest */
/** @typedef {{ listen: number, host: string, port: number }} ListenRequest */
/** @typedef {ConnectRequest | ListenRequest | { cancel: number } | { ping: number }} Request */

const MAX_STREAMS = 1_024;

/**
 * `silentMs`: without a byte from Berth, which pings more often, the relay ends.
 * @param {Protocol} protocol @param {number} silentMs
 */
export function serve({ Multiplexer }, silentMs) {
  // Unlike `process.stdout`, a socket does not block the process.
  const output = new net.Socket({ fd: 1, readable: false });
  const input = process.stdin;
  /** @type {Map<number, { close(): void }>} */
  const opening = new Map();
  /** @type {Map<number, net.Server>} */
  const servers = new Map();
  let lastAcceptedId = 0;

  const multiplexer = new Multiplexer({
    write: (bytes) => output.write(bytes),
    onMessage: (message) => {
      if (isRequest(message)) serveRequest(message);
    },
  });

  /** @param {number} id @param {unknown} error */
  const refuse = (id, error) =>
    multiplexer.send({ refused: id, code: codeOf(error), text: String(error).slice(0, 500) });

  /** @param {ConnectRequest} request */
  async function connect({ connect: id, host, port }) {
    let isCancelled = false;
    /** @type {net.Socket | undefined} */
    let socket;
    opening.set(id, {
      close() {
        isCancelled = true;
        socket?.destroy(new Error('cancelled'));
      },
    });
    /** @type {unknown[]} */
    const failures = [];
    try {
      for (const address of await addressesOf(host)) {
        if (isCancelled) return;
        socket = net.connect({ host: address, port, allowHalfOpen: true, noDelay: true });
        try {
          await connected(socket);
          multiplexer.send({ connected: id });
          return join(socket, multiplexer.open(id));
        } catch (error) {
          failures.push(error);
        }
      }
      refuse(id, failures.find((error) => codeOf(error) === 'ECONNREFUSED') ?? failures[0]);
    } catch (error) {
      refuse(id, error);
    } finally {
      opening.delete(id);
    }
  }

  /** @param {ListenRequest} request */
  function listen({ listen: id, host, port }) {
    const server = net.createServer({ pauseOnConnect: true, allowHalfOpen: true, noDelay: true });
    server.on('connection', (socket) => accept(id, socket));
    server.once('error', (error) => {
      servers.delete(id);
      refuse(id, error);
    });
    servers.set(id, server);
    server.listen({ port, ...(host === '' ? {} : { host }) }, () => {
      server.removeAllListeners('error').on('error', () => {});
      const address = server.address();
      multiplexer.send({ listening: id, port: address !== null && typeof address === 'object' ? address.port : port });
    });
  }

  /** @param {number} listener @param {net.Socket} socket */
  function accept(listener, socket) {
    if (multiplexer.size >= MAX_STREAMS) return void socket.destroy();
    // Even ids are of this end.
    const id = (lastAcceptedId += 2);
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    multiplexer.send({ accepted: id, listener, remoteAddress, remotePort, localAddress, localPort });
    join(socket, multiplexer.open(id));
  }

  /** @param {Request} request */
  function serveRequest(request) {
    if ('connect' in request) void connect(request);
    else if ('listen' in request) listen(request);
    else if ('cancel' in request) {
      opening.get(request.cancel)?.close();
      servers.get(request.cancel)?.close();
      servers.delete(request.cancel);
    } else multiplexer.send({ pong: request.ping });
  }

  const exit = () => process.exit();
  const watch = setTimeout(exit, silentMs);
  output.on('drain', () => multiplexer.drained()).on('error', exit);
  input.on('end', exit).on('close', exit).on('error', exit);
  // Paused since its last byte of the program.
  input.resume().on('data', (bytes) => {
    watch.refresh();
    multiplexer.receive(Buffer.from(bytes));
  });
  multiplexer.send({ ready: process.version });
}

/** Trusts Berth for the rest. @param {unknown} message @returns {message is Request} */
function isRequest(message) {
  return typeof message === 'object' && message !== null;
}

/** @param {net.Socket} socket @param {import('node:stream').Duplex} stream */
function join(socket, stream) {
  socket.on('error', () => {});
  socket.on('close', () => {
    if (!stream.writableEnded || !stream.readableEnded) stream.destroy();
  });
  stream.on('close', () => {
    if (!stream.writableFinished || !stream.readableEnded) socket.destroy();
  });
  socket.pipe(stream).pipe(socket);
}

/** @param {net.Socket} socket @returns {Promise<void>} */
function connected(socket) {
  return new Promise((resolve, reject) => {
    socket.once('error', reject).once('connect', () => {
      socket.off('error', reject);
      resolve();
    });
  });
}

/** By the hosts file and the name servers of the Pod. @param {string} host */
async function addressesOf(host) {
  if (net.isIP(host) !== 0) return [host];
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** @param {unknown} error */
const codeOf = (error) => (error instanceof Error && 'code' in error ? String(error.code) : '');
