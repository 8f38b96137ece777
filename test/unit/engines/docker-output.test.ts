/** Output for a reader that waits, from an engine that does not answer about the command. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { Output, pump } from '../../../src/engines/docker/exec/output.ts';

const PIECE = Buffer.alloc(64 * 1024);

test('takes what an engine holds of a command that it does not answer about, and no more', async () => {
  const streams = { stdout: new Output(), stderr: new Output() };
  const socket = new PassThrough();
  let taken = 0;
  const written = (async () => {
    for (let at = 0; at < 100; at++) {
      if (!socket.write(PIECE)) await once(socket, 'drain');
      taken += PIECE.length;
    }
    socket.end();
  })();
  let answer: (ended: boolean) => void = () => {};
  const question = new Promise<boolean>((resolve) => (answer = resolve));
  const pumped = pump(socket, streams, { framed: false, hasEnded: () => question });
  await expect.poll(() => taken).toBeGreaterThan(2_900_000);
  const before = taken;
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(taken - before).toBeLessThan(500_000);
  answer(true);
  await Promise.all([written, pumped]);
  streams.stdout.finish();
  expect((await streams.stdout.toArray()).reduce((sum: number, one: Buffer) => sum + one.length, 0)).toBe(6_553_600);
});
