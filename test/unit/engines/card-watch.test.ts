/** Readings of cards by a real process that prints the lines of `nvidia-smi`. */
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { shortLines } from '../../../src/engines/docker/cards/card-loop.ts';
import {
  makeCardWatch,
  WELL_MS,
  type CardWatch,
  type CardWatchOptions,
} from '../../../src/engines/docker/cards/card-watch.ts';
import { parseReading, readingFields } from '../../../src/engines/docker/cards/readings.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { smiHere, type StartSmi } from '../../../src/engines/docker/cards/smi.ts';
import { placeOf } from '../../../src/engines/docker/client/cards.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { hostGpu } from '../../fixtures/host-gpu.ts';
import { cardOf, h200, makeFakeSmi, type CardColumns, type FakeSmi } from '../../fixtures/nvidia-smi.ts';

const MIB = 1024 ** 2;
const lineOf = (card: CardColumns): string => readingFields.map((field) => card[field]).join(', ');
const read = (over: CardColumns) => parseReading(lineOf({ ...h200, ...over }), readingFields);
const uuid = (nth: number): string => cardOf(nth)['uuid'] ?? '';
const gpuOf = (nth: number) => hostGpu({ id: String(nth), otherIds: [uuid(nth)] });

const idle = {
  busyPercent: 0,
  memoryUsedBytes: 0,
  memoryTotalBytes: 143_771 * MIB,
  powerMilliwatts: 89_790,
  temperatureCelsius: 33,
  slowedBy: [],
};

describe('a line of nvidia-smi', () => {
  it('has the figures of a card', () => {
    expect(read({})).toMatchObject({ uuid: h200['uuid'], place: '0000:00:06', figures: idle });
  });

  it('has no figure where the driver prints none, or nonsense', () => {
    const figures = read({
      'memory.used': '[N/A]',
      'power.draw': '[Not Supported]',
      'utilization.gpu': '193',
    })?.figures;
    expect(figures).toEqual({ ...idle, busyPercent: null, memoryUsedBytes: null, powerMilliwatts: null });
    expect(read({ 'temperature.gpu': 'hot', 'memory.total': '-1' })?.figures).toEqual({
      ...idle,
      temperatureCelsius: null,
      memoryTotalBytes: null,
    });
  });

  it('says what slows the card', () => {
    const slowed = (mask: string) => read({ 'clocks_event_reasons.active': mask })?.figures.slowedBy;
    expect(slowed('0x0000000000000064')).toEqual(['heat', 'powerLimit']);
    expect(slowed('0x80')).toEqual(['powerBrake']);
    expect(slowed('0x0000000000000001')).toEqual([]);
    expect(slowed('[N/A]')).toBeUndefined();
  });

  it('says what the driver asks for, and counts errors', () => {
    const none = { isLost: false, recovery: null, eccUncorrected: 0 };
    expect(read({})).toMatchObject(none);
    expect(read({ gpu_recovery_action: '[N/A]', 'ecc.errors.uncorrected.volatile.total': '[N/A]' })).toMatchObject({
      ...none,
      eccUncorrected: null,
    });
    expect(
      read({ gpu_recovery_action: 'Drain and Reset', 'ecc.errors.uncorrected.volatile.total': '2' }),
    ).toMatchObject({ ...none, recovery: 'Drain and Reset', eccUncorrected: 2 });
  });

  // From reports of others: no card was lost here.
  it('is of a lost card where the driver says so, or no figure can be read', () => {
    const all = Object.fromEntries(readingFields.slice(2).map((field) => [field, '[GPU is lost]']));
    expect(read(all)).toMatchObject({ isLost: true, uuid: h200['uuid'], recovery: null });
    const failed = {
      'utilization.gpu': '[Unknown Error]',
      'memory.used': '[Unknown Error]',
      'temperature.gpu': 'ERR!',
    };
    expect(read(failed)).toMatchObject({ isLost: true });
    expect(read({ 'power.draw': '[Unknown Error]' })).toMatchObject({ isLost: false });
    expect(read({ 'utilization.gpu': '[N/A]', 'memory.used': '[N/A]', 'temperature.gpu': '[N/A]' })).toMatchObject({
      isLost: false,
    });
  });

  it('is of no card with another number of columns, or without a place', () => {
    expect(parseReading(`${lineOf(h200)}, 1`, readingFields)).toBeNull();
    expect(parseReading('No devices were found', readingFields)).toBeNull();
    expect(read({ 'pci.bus_id': '[N/A]' })).toBeNull();
  });

  it('is dropped above its bound, without the lines around it', () => {
    const lines: string[] = [];
    const take = shortLines((line) => lines.push(line));
    for (const chunk of ['one\ntw', 'o\n', 'x'.repeat(3_000), 'x'.repeat(3_000), 'x'.repeat(9_000), '\nth', 'ree\n'])
      take(chunk);
    expect(lines).toEqual(['one', 'two', 'three']);
  });
});

describe('the place of a card', () => {
  it('is the same in the forms of driver, kernel and nvidia-smi', () => {
    for (const form of ['00000000:3B:00.0', '0000:3b:00', '0000:3b:00.0', 'GPU0000:3B:00.0', 'GPU 0000:3B:00.0'])
      expect(placeOf(form), form).toBe('0000:3b:00');
    for (const none of ['', '3b:00', '[N/A]']) expect(placeOf(none), none).toBeNull();
  });
});

async function watch(
  cards: readonly (CardColumns | string)[],
  count: number,
  options: Partial<CardWatchOptions> = {},
): Promise<[FakeSmi, CardWatch]> {
  const smi = await makeFakeSmi();
  await smi.show(cards);
  const watched = makeCardWatch({ log: { debug: () => {} }, start: smiHere(smi.program), ...options });
  onTestFinished(async () => {
    await watched.stop();
    await smi.remove();
  });
  watched.follow(Array.from({ length: count }, (_, nth) => gpuOf(nth)));
  return [smi, watched];
}
const busyOf = (watched: CardWatch, nth: number) => watched.usageOf(String(nth))?.busyPercent;

describe('a watch of cards', () => {
  it('runs one process, and has the last figures of each card under each of its names', async () => {
    const [smi, watched] = await watch([cardOf(0), cardOf(1, { 'utilization.gpu': '7' })], 2);
    await eventually(() => busyOf(watched, 1) === 7);
    await smi.show([cardOf(0, { 'utilization.gpu': '93' }), cardOf(1)]);
    await eventually(() => busyOf(watched, 0) === 93);
    expect(watched.usageOf(uuid(0))).toEqual({ ...idle, busyPercent: 93, deviceId: uuid(0) });
    watched.follow([gpuOf(0), gpuOf(1)]);
    expect(await smi.loops()).toHaveLength(1);
    expect(watched.usageOf('2')).toBeUndefined();
  });

  it('starts no process for cards that nvidia-smi does not know', async () => {
    const [smi, watched] = await watch([cardOf(0)], 0);
    watched.follow([hostGpu({ id: '0' }), hostGpu({ id: uuid(1), memoryMiB: null })]);
    expect(watched.usageOf('0')).toBeUndefined();
    expect(await smi.loops()).toEqual([]);
  });

  it('starts a process that ended again, and none after its end', async () => {
    const [smi, watched] = await watch([cardOf(0)], 1);
    await eventually(() => busyOf(watched, 0) === 0);
    const [first] = await smi.loops();
    process.kill(first?.pid ?? 0, 'SIGKILL');
    await eventually(async () => (await smi.loops()).length === 2);
    await watched.stop();
    const [, second] = await smi.loops();
    await expect.poll(() => isAlive(second?.pid ?? 0)).toBe(false);
  });

  it('asks without a field that the driver does not have', async () => {
    const { 'power.draw': _, ...older } = cardOf(0);
    const [smi, watched] = await watch([older], 1);
    await eventually(() => busyOf(watched, 0) === 0);
    expect(watched.usageOf('0')).toEqual({ ...idle, powerMilliwatts: null, deviceId: '0' });
    expect((await smi.loops()).map(({ args }) => args.includes('power.draw'))).toEqual([true, false]);
  });

  it('reads the others where a card has lost its handle', async () => {
    const [smi, watched] = await watch([cardOf(0), cardOf(1)], 2);
    await eventually(() => busyOf(watched, 1) === 0);
    const failed = 'Unable to determine the device handle for GPU0000:00:00.0: Unknown Error';
    await smi.show([failed, cardOf(0), cardOf(1, { 'utilization.gpu': '5' })]);
    await eventually(() => busyOf(watched, 1) === 5);
    expect((await smi.loops()).at(-1)?.args).toContain(`--id=${uuid(1)}`);
  });
});

const reasonsOf = (watched: CardWatch, nth: number) =>
  watched.findingsOf(String(nth))?.map(({ reason, evidence }) => [reason, evidence]);

/** A clock that the test sets forward. */
function makeClock() {
  const clock = { aheadMs: 0, now: () => performance.now() + clock.aheadMs };
  return clock;
}

describe('findings about a card', () => {
  it('are known once it was well for a minute, and end a minute after the last', async () => {
    const clock = makeClock();
    const [smi, watched] = await watch([cardOf(0)], 1, { now: clock.now });
    await eventually(() => busyOf(watched, 0) === 0);
    expect(watched.findingsOf('0')).toBeUndefined();
    expect(watched.findingsOf('1')).toBeUndefined();
    await smi.show([cardOf(0, { gpu_recovery_action: 'Reset' })]);
    await eventually(() => reasonsOf(watched, 0) !== undefined);
    expect(reasonsOf(watched, 0)).toEqual([['gpuNeedsReset', 'Reset']]);
    await smi.show([cardOf(0, { 'utilization.gpu': '1' })]);
    await eventually(() => busyOf(watched, 0) === 1);
    expect(reasonsOf(watched, 0)).toEqual([['gpuNeedsReset', 'Reset']]);
    clock.aheadMs += WELL_MS;
    await eventually(() => watched.usageOf('0')?.busyPercent === 1);
    expect(watched.findingsOf('0')).toEqual([]);
  });

  it('have a card lost that is missing from the readings of others', async () => {
    const clock = makeClock();
    const [smi, watched] = await watch([cardOf(0), cardOf(1)], 2, { now: clock.now });
    await eventually(() => busyOf(watched, 1) === 0);
    await smi.show([cardOf(0, { 'utilization.gpu': '2' })]);
    await eventually(() => busyOf(watched, 0) === 2);
    clock.aheadMs += WELL_MS;
    await eventually(() => busyOf(watched, 0) === 2);
    expect(reasonsOf(watched, 0)).toEqual([]);
    // The next list of cards does not have it.
    watched.follow([gpuOf(0)]);
    expect(reasonsOf(watched, 1)).toEqual([['gpuLost', '']]);
    await eventually(() => watched.isLost('1'));
    expect(watched.isLost('0')).toBe(false);
  });

  it('have a card lost for its instance after three rounds of the others, however long a round is', async () => {
    const [smi, watched] = await watch([cardOf(0), cardOf(1)], 2, { now: () => 0 });
    await eventually(() => busyOf(watched, 1) === 0);
    await smi.show([cardOf(0, { 'utilization.gpu': '2' })]);
    await eventually(() => watched.isLost('1'));
    expect(watched.isLost('0')).toBe(false);
    await smi.show([cardOf(0), cardOf(1)]);
    await eventually(() => !watched.isLost('1'));
  });

  it('take no card from instances while the driver says nothing of any', async () => {
    const clock = makeClock();
    const [smi, watched] = await watch([cardOf(0), cardOf(1)], 2, { now: clock.now });
    await eventually(() => busyOf(watched, 1) === 0);
    await smi.show(['Failed to initialize NVML: Driver/library version mismatch']);
    const isSilent = (nth: number): boolean => reasonsOf(watched, nth)?.[0]?.[0] === 'gpuLost';
    await eventually(() => {
      clock.aheadMs += WELL_MS;
      return isSilent(0) && isSilent(1);
    });
    expect([watched.isLost('0'), watched.isLost('1')]).toEqual([false, false]);
  });

  it('have no card lost while the engine of the container that reads is away', async () => {
    const clock = makeClock();
    const smi = await makeFakeSmi();
    await smi.show([cardOf(0), cardOf(1)]);
    let isAway = false;
    let refusals = 0;
    const start: StartSmi = async (args, signal) => {
      if (!isAway) return smiHere(smi.program)(args, signal);
      refusals += 1;
      throw new EngineFault('unreachable', 'the engine does not answer', { retry: true });
    };
    const watched = makeCardWatch({ log: { debug: () => {} }, start, now: clock.now });
    onTestFinished(async () => {
      await watched.stop();
      await smi.remove();
    });
    watched.follow([gpuOf(0), gpuOf(1)]);
    await eventually(() => busyOf(watched, 1) === 0);
    isAway = true;
    process.kill((await smi.loops())[0]?.pid ?? 0, 'SIGKILL');
    await smi.show([cardOf(0, { 'utilization.gpu': '5' })]);
    await eventually(() => refusals > 0);
    clock.aheadMs += WELL_MS;
    expect(reasonsOf(watched, 0)).toEqual([]);
    isAway = false;
    await eventually(() => busyOf(watched, 0) === 5);
    expect([reasonsOf(watched, 0), reasonsOf(watched, 1)]).toEqual([[], []]);
    clock.aheadMs += WELL_MS;
    await eventually(() => busyOf(watched, 0) === 5);
    expect([reasonsOf(watched, 0), reasonsOf(watched, 1)]).toEqual([[], [['gpuLost', '']]]);
  });

  it('have a card lost without a handle', async () => {
    const clock = makeClock();
    const [smi, watched] = await watch([cardOf(0), cardOf(1)], 2, { now: clock.now });
    await eventually(() => busyOf(watched, 1) === 0);
    await smi.show(['Unable to determine the device handle for GPU0000:01:00.0: Unknown Error', cardOf(0), cardOf(1)]);
    await eventually(() => reasonsOf(watched, 1) !== undefined);
    expect(reasonsOf(watched, 1)).toEqual([['gpuLost', '']]);
    expect(watched.findingsOf('0')).toBeUndefined();
    expect(watched.isLost('1')).toBe(false);
    clock.aheadMs += WELL_MS;
    await eventually(() => watched.isLost('1'));
    expect(watched.isLost('0')).toBe(false);
  });

  it('have a card lost that has had no handle since before the first reading, until it is there again', async () => {
    const clock = makeClock();
    const [, watched] = await watch([cardOf(0), cardOf(1)], 0, { now: clock.now });
    const gone = { ...gpuOf(1), memoryMiB: null, isLost: true } as const;
    watched.follow([gpuOf(0), gone]);
    expect(reasonsOf(watched, 1)).toEqual([['gpuLost', '']]);
    expect(watched.isLost('1')).toBe(false);
    clock.aheadMs += WELL_MS;
    watched.follow([gpuOf(0), gone]);
    expect([watched.isLost('1'), watched.isLost(uuid(1)), watched.isLost('0')]).toEqual([true, true, false]);
    watched.follow([gpuOf(0), gpuOf(1)]);
    await eventually(() => busyOf(watched, 1) === 0);
    expect([watched.findingsOf('1'), watched.isLost('1')]).toEqual([undefined, false]);
  });

  it('are those of the card for each of its parts, which have no figures of their own', async () => {
    const [smi, watched] = await watch([cardOf(0, { gpu_recovery_action: 'Reset' })], 0);
    watched.follow([hostGpu({ id: 'MIG-1', slice: 'mig', cardUuid: uuid(0) })]);
    await eventually(() => watched.findingsOf('MIG-1') !== undefined);
    expect(watched.findingsOf('MIG-1')).toMatchObject([{ reason: 'gpuNeedsReset' }]);
    expect(watched.usageOf('MIG-1')).toBeUndefined();
    const devices = ['MIG-1', 'another'].map((id) => ({ kind: 'gpu' as const, name: 'H200', id }));
    const figures = expect.objectContaining({ busyPercent: expect.any(Number), powerMilliwatts: expect.any(Number) });
    expect(watched.read(devices)).toEqual([
      { ...devices[0], uuid: uuid(0), figures, findings: watched.findingsOf('MIG-1') },
      { ...devices[1], findings: undefined },
    ]);
    expect(await smi.loops()).toHaveLength(1);
  });

  it('have the Xids that the kernel logs from then on, at the place of the card', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'kmsg-'));
    const path = join(folder, 'kmsg');
    onTestFinished(() => rm(folder, { recursive: true }));
    const record = (priority: number, place: string, code: number, at: number) =>
      `${priority},1,${at},-;NVRM: Xid (PCI:${place}): ${code}, pid=7, GPU has fallen off the bus.\n`;
    await writeFile(path, record(3, '0000:00:00', 48, 1));
    const [, watched] = await watch([cardOf(0), cardOf(1)], 2, { kernelLog: { path, pollMs: 20 } });
    await eventually(() => busyOf(watched, 1) === 0);
    await appendFile(path, record(11, '0000:01:00', 62, 2) + record(3, '0000:01:00', 13, 3));
    await appendFile(path, record(3, '0000:00:00.0', 79, 4));
    await eventually(() => reasonsOf(watched, 0) !== undefined);
    expect(reasonsOf(watched, 0)).toEqual([['xid 79', '4']]);
    expect(watched.findingsOf('1')).toBeUndefined();
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
