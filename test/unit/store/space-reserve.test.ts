import { mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openSpaceReserve, RESERVE_BYTES } from '../../../src/store/db/space-reserve.ts';

function newFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'berth-reserve-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const texts: string[] = [];
  const say = (_: object, text: string): void => void texts.push(text);
  const file = join(folder, 'space-reserve');
  return { folder, file, texts, log: { info: say, warn: say, error: say } };
}

const full = expect.stringContaining('is full');
const again = expect.stringContaining('has space again');

test('gives a reserve back in pieces, says so once, and makes it again when space is free', async () => {
  const { folder, file, texts, log } = newFolder();
  const reserve = await openSpaceReserve({ folder, log });
  expect([statSync(file).size, reserve.isFull(), texts]).toEqual([RESERVE_BYTES, false, []]);
  let pieces = 0;
  while (reserve.release()) pieces += 1;
  expect(pieces).toBe(240);
  const kept = RESERVE_BYTES / 16;
  expect([statSync(file).size, reserve.isFull(), reserve.release(), texts], 'a start needs the rest').toEqual([
    kept,
    true,
    false,
    [full],
  ]);
  await reserve.check();
  expect([statSync(file).size, reserve.isFull(), texts]).toEqual([RESERVE_BYTES, false, [full, again]]);
});

test('completes at the start what is left of the reserve', async () => {
  const { folder, file, log, texts } = newFolder();
  writeFileSync(file, Buffer.alloc(1_000));
  const reserve = await openSpaceReserve({ folder, log });
  expect([statSync(file).size, reserve.isFull(), texts]).toEqual([RESERVE_BYTES, false, []]);
  truncateSync(file, RESERVE_BYTES / 16 + 5);
  expect(reserve.release()).toBe(true);
  expect(statSync(file).size).toBe(RESERVE_BYTES / 16);
});

test('reports a state that begins and ends again and again once in five minutes, with its end', async () => {
  const { folder, log, texts } = newFolder();
  let nowMs = 0;
  const reserve = await openSpaceReserve({ folder, log, now: () => nowMs });
  const fillAndFree = async (): Promise<void> => {
    while (reserve.release());
    expect(reserve.isFull()).toBe(true);
    await reserve.check();
    expect(reserve.isFull()).toBe(false);
  };
  for (let times = 0; times < 20; times += 1) {
    await fillAndFree();
    nowMs += 10_000;
  }
  expect(texts).toEqual([full, again]);
  // Begins unreported, and lasts.
  reserve.release();
  expect(texts).toHaveLength(2);
  nowMs += 100_000;
  reserve.release();
  expect(texts).toEqual([full, again, full]);
  await reserve.check();
  expect(texts).toEqual([full, again, full, again]);
});
