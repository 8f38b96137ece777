/** This side of the process in an instance's network, before one of a test's own in its place. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { makeNetworkChild } from '../../../src/engines/docker/network/parent.ts';

/** Can't listen, and hands connections over for what it was asked all the same; then it says that it has. */
const PROGRAM = `
import net from 'node:net';
process.on('disconnect', () => process.exit());
process.on('message', ({ id, listen }) => {
  if (listen.port === 1) return process.send({ id, code: 'EADDRINUSE', text: 'taken' });
  const server = net.createServer((socket) =>
    process.send({ id: id - 1, early: true }, socket, {}, () => process.send({ id, code: 'EACCES', text: 'told' })));
  server.listen(0, '127.0.0.1', () => net.connect(server.address().port, '127.0.0.1').on('error', () => {}));
});
process.send({ network: 'another' });
`;

test('what could not be listened for takes no connections', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-network-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [program, enter] = [join(folder, 'program.mjs'), join(folder, 'enter')];
  await writeFile(program, PROGRAM);
  await writeFile(enter, `#!/bin/sh\nexec '${process.execPath}' '${program}'\n`);
  await chmod(enter, 0o755);
  const child = makeNetworkChild({ enter, network: 'any' });
  onTestFinished(() => child.stop());
  let early = 0;
  const ask = (port: number) => {
    const onEarly = (): void => void (early += 1);
    return child.ask({ listen: { host: '127.0.0.1', port }, onEarly }, AbortSignal.timeout(20_000));
  };
  await expect(ask(1)).rejects.toThrow('taken');
  await expect(ask(2)).rejects.toThrow('told');
  expect(early).toBe(0);
});
