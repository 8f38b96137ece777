/**
 * Runs in the network of one instance, and in nothing else of it: opens connections and listeners there for the process that began
 * it (`parent.ts`), and hands them over. It reads and writes none of their bytes, and ends with that process.
 *
 * It is told `{ id, connect: { addresses, names, servers, port } }`, `{ id, listen: { host, port } }` or `{ id, cancel: true }`, and
 * answers `{ id }` with what was opened, or `{ id, code, text }`. A connection that came before its listener was handed over follows as
 * `{ id, early: true }`; after `{ id, handedOver: true }` none does.
 *
 * Plain JavaScript: with types to be taken away first it begins after 104 ms, not 42, and holds 64 MB, not 46.
 */
import { Resolver } from 'node:dns/promises';
import { readFileSync, readlinkSync } from 'node:fs';
import net from 'node:net';

const NOBODY = 65_534;

/** @typedef {{ addresses: string[], names: string[], servers: string[], port: number }} Target */
/** @typedef {{ id: number, connect?: Target, listen?: { host: string, port: number }, cancel?: boolean }} Asked */

/** What is under way, by the question's id: how to give it up. @type {Map<number, AbortController>} */
const underWay = new Map();

/** @param {{ id: number, early?: true, code?: string, text?: string }} answer @param {net.Socket | net.Server} [handle] */
function say(answer, handle) {
  process.send?.(answer, handle, {}, () => {
    if (!(handle instanceof net.Server)) return;
    // A copy of ours would go on taking connections.
    handle.close();
    process.send?.({ id: answer.id, handedOver: true });
  });
}

/** @param {string} address @param {number} port @param {AbortSignal} signal @returns {Promise<net.Socket>} */
function open(address, port, signal) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: address, port, allowHalfOpen: true });
    socket.pause(); // what comes is for its next owner
    const giveUp = () => socket.destroy(new Error('given up'));
    signal.addEventListener('abort', giveUp, { once: true });
    socket.once('error', reject).once('connect', () => {
      signal.removeEventListener('abort', giveUp);
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** @param {Target} target @param {AbortSignal} signal @returns {Promise<string[]>} */
async function resolve({ addresses, names, servers }, signal) {
  if (addresses.length > 0) return addresses;
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  signal.addEventListener('abort', () => resolver.cancel(), { once: true });
  resolver.setServers(servers);
  for (const name of names) {
    const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = [four, six].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (found.length > 0) return found;
  }
  throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
}

/** @param {number} id @param {Target} target @param {AbortSignal} signal */
async function connect(id, target, signal) {
  /** @type {unknown[]} */
  const failures = [];
  for (const address of await resolve(target, signal)) {
    signal.throwIfAborted();
    try {
      return say({ id }, await open(address, target.port, signal));
    } catch (error) {
      failures.push(error);
    }
  }
  throw failures.find((error) => codeOf(error) === 'ECONNREFUSED') ?? failures[0];
}

/** @param {number} id @param {{ host: string, port: number }} at @returns {Promise<void>} */
function listen(id, { host, port }) {
  return new Promise((resolve, reject) => {
    const server = net.createServer({ pauseOnConnect: true, allowHalfOpen: true });
    // Between its beginning and its handing over.
    server.on('connection', (socket) => say({ id, early: true }, socket));
    server.once('error', reject).listen({ port, ...(host === '' ? {} : { host }) }, () => {
      server.off('error', reject).on('error', () => {});
      resolve(say({ id }, server));
    });
  });
}

/** @param {Asked} asked */
async function answer({ id, connect: target, listen: at, cancel }) {
  if (cancel) return underWay.get(id)?.abort();
  const giveUp = new AbortController();
  underWay.set(id, giveUp);
  try {
    if (target) await connect(id, target, giveUp.signal);
    else if (at) await listen(id, at);
  } catch (error) {
    say({ id, code: codeOf(error), text: String(error) });
  } finally {
    underWay.delete(id);
  }
}

/** @param {unknown} error */
const codeOf = (error) => (error instanceof Error && 'code' in error ? String(error.code) : '');

/** Docker gives all users of its networks the low ports; where it doesn't, root alone has them. */
function becomeNobody() {
  if (readFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'utf8').trim() !== '0') return;
  process.setgroups?.([]);
  process.setgid?.(NOBODY);
  process.setuid?.(NOBODY);
}

becomeNobody();
process.on('disconnect', () => process.exit());
process.on('message', (/** @type {Asked} */ asked) => void answer(asked));
process.send?.({ network: readlinkSync('/proc/self/ns/net') });
