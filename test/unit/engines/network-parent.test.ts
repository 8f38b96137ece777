/** Parent's side of the network child, against a child of the test's own. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { makeNetworkChild, type NetworkChild } from '../../../src/engines/docker/network/parent.ts';

/** Fails to listen, yet passes a connection for the failed request. */
const PROGRAM = `
import net from 'node:net';
process.on('disconnect', () => process.exit());
process.on('message', ({ id, listen }) => {
  if (listen.port === 1) return process.send({ id, code: 'EADDRINUSE', text: 'taken' });
  const server = net.createServer((socket) =>
    process.send({ id: id - 1, early: true }, socket, {}, () => process.send({ id, code: 'EACCES', text: 'accepted' })));
  server.listen(0, '127.0.0.1', () => net.connect(server.address().port, '127.0.0.1').on('error', () => {}));
});
process.send({ network: 'another' });
`;

/** Takes requests and pings, and answers nothing. */
const SILENT = `
process.on('disconnect', () => process.exit());
process.on('message', () => {});
process.send({ network: 'another' });
`;

/** Starts a child that runs this program. */
async function childOf(source: string, pingMs?: number): Promise<NetworkChild> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-network-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [program, nsenter] = [join(folder, 'program.mjs'), join(folder, 'nsenter')];
  await writeFile(program, source);
  await writeFile(nsenter, `#!/bin/sh\nexec '${process.execPath}' '${program}'\n`);
  await chmod(nsenter, 0o755);
  const child = makeNetworkChild({ nsenter, network: 'any', ...(pingMs === undefined ? {} : { pingMs }) });
  onTestFinished(() => child.stop());
  return child;
}

test('a failed listen takes no connections', async () => {
  const child = await childOf(PROGRAM);
  let early = 0;
  const open = (port: number) => {
    const onEarly = (): void => void (early += 1);
    return child.open({ listen: { host: '127.0.0.1', port }, onEarly }, AbortSignal.timeout(20_000));
  };
  await expect(open(1)).rejects.toThrow('taken');
  await expect(open(2)).rejects.toThrow('accepted');
  expect(early).toBe(0);
});

test('a child that answers no ping is ended, and its requests get a fault that says so', async () => {
  const child = await childOf(SILENT, 100);
  const request = { connect: { addresses: ['127.0.0.1'], names: [], servers: [], port: 1 } };
  await expect(child.open(request, AbortSignal.timeout(20_000))).rejects.toMatchObject({
    kind: 'unreachable',
    retry: true,
    message: expect.stringContaining('did not answer within 0.1 s'),
  });
});
