/** Processor time of the readings of a host's cards, which a process of the host prints. */
import { setTimeout as sleep } from 'node:timers/promises';
import { makeCardWatch } from '../src/engines/docker/cards/card-watch.ts';
import { SAMPLE_MS } from '../src/domain/compute/metrics.ts';
import { MINUTE_MS } from '../src/domain/kernel/durations.ts';
import { hostGpu } from '../test/fixtures/host-gpu.ts';
import { cardOf, makeFakeSmi } from '../test/fixtures/nvidia-smi.ts';
import type { Bench } from './bench.ts';
import { shown } from './lib/numbers.ts';

const CARDS = 8;
const ASKED_SHARE = 0.001;
const EVERY_S = 5;
const WARM_UP_MS = 10_000;

export const cards: Bench = {
  title: `readings of ${CARDS} cards every ${EVERY_S} s, from lines of a recorded H200`,
  async run({ flags, say }) {
    const smi = await makeFakeSmi({ everyS: EVERY_S });
    const all = Array.from({ length: CARDS }, (_, nth) => cardOf(nth));
    await smi.show(all);
    const watched = makeCardWatch({ log: { debug: () => {} }, program: smi.program });
    const ids = all.map((card) => card['uuid'] ?? '');
    watched.follow(ids.map((id) => hostGpu({ id })));
    const measureOver = async (ms: number): Promise<number> => {
      const before = process.cpuUsage();
      for (let atMs = 0; atMs < ms; atMs += SAMPLE_MS) {
        await sleep(Math.min(SAMPLE_MS, ms - atMs));
        for (const id of ids) {
          watched.usageOf(id);
          watched.findingsOf(id);
        }
      }
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1_000 / ms;
    };
    try {
      await sleep(WARM_UP_MS);
      const read = ids.filter((id) => watched.usageOf(id)?.busyPercent === 0);
      if (read.length < CARDS) throw new Error(`${read.length} of ${CARDS} cards were read`);
      say('  a minute with readings, then a minute without');
      const overMs = flags.has('--short') ? MINUTE_MS / 4 : MINUTE_MS;
      const withReadings = await measureOver(overMs);
      await watched.stop();
      const without = await measureOver(overMs);
      const share = Math.max(0, withReadings - without);
      const percent = (part: number): string => `${shown(part * 100)} %`;
      const processes = (await smi.loops()).length;
      return {
        table: [
          ['', 'of one core'],
          ['process with readings', percent(withReadings)],
          ['the same process without', percent(without)],
          ['difference', percent(share)],
        ],
        verdicts: [
          { asked: 'at most 0.1 % of a core', measured: percent(share), met: share <= ASKED_SHARE },
          { asked: 'one process', measured: String(processes), met: processes === 1 },
        ],
        notes: [
          'User and system of the process that reads, without the one that prints: what `nvidia-smi` itself takes depends on driver and cards.',
        ],
      };
    } finally {
      await watched.stop();
      await smi.remove();
    }
  },
};
