/** Processor time of the readings of a host's cards, which a process of the host prints. */
import { setTimeout as sleep } from 'node:timers/promises';
import { INTERVAL_MS } from '../src/engines/docker/cards/card-loop.ts';
import { makeCardWatch } from '../src/engines/docker/cards/card-watch.ts';
import { smiHere } from '../src/engines/docker/cards/smi.ts';
import { MINUTE_MS } from '../src/domain/kernel/durations.ts';
import { hostGpu } from '../test/fixtures/host-gpu.ts';
import { cardOf, makeFakeSmi } from '../test/fixtures/nvidia-smi.ts';
import type { Bench } from './bench.ts';
import { shown } from './lib/numbers.ts';

const CARDS = 8;
const ASKED_SHARE = 0.001;
/** A hundred times as often as it is: the share is too small to be measured otherwise. */
const FASTER = 100;
const WARM_UP_MS = 5_000;

export const cards: Bench = {
  title: `readings of ${CARDS} cards every ${INTERVAL_MS / 1_000} s, from lines of a recorded H200`,
  async run({ flags, say }) {
    const smi = await makeFakeSmi({ everyS: INTERVAL_MS / 1_000 / FASTER });
    const all = Array.from({ length: CARDS }, (_, nth) => cardOf(nth));
    await smi.show(all);
    const watched = makeCardWatch({ log: { debug: () => {} }, start: smiHere(smi.program) });
    const ids = all.map((card) => card['uuid'] ?? '');
    watched.follow(ids.map((id) => hostGpu({ id })));
    try {
      await sleep(WARM_UP_MS);
      const read = ids.filter((id) => watched.usageOf(id)?.busyPercent === 0);
      if (read.length < CARDS) throw new Error(`${read.length} of ${CARDS} cards were read`);
      say('  a minute of readings');
      const roundsBefore = await smi.rounds();
      const before = process.cpuUsage();
      await sleep(flags.has('--short') ? MINUTE_MS / 6 : MINUTE_MS);
      const { user, system } = process.cpuUsage(before);
      const rounds = (await smi.rounds()) - roundsBefore;
      const roundMs = (user + system) / 1_000 / rounds;
      const share = roundMs / INTERVAL_MS;
      const processes = (await smi.loops()).length;
      return {
        table: [
          ['', 'measured'],
          ['rounds', shown(rounds)],
          ['processor, a round of all cards', `${shown(roundMs)} ms`],
          ['of one core', `${shown(share * 100)} %`],
        ],
        verdicts: [
          { asked: 'at most 0.1 % of a core', measured: `${shown(share * 100)} %`, met: share <= ASKED_SHARE },
          { asked: 'one process', measured: String(processes), met: processes === 1 },
        ],
        notes: [
          `User and system of the process that reads, over rounds that come up to ${FASTER} times as often. Not of the one that prints: what \`nvidia-smi\` itself takes depends on driver and cards.`,
        ],
      };
    } finally {
      await watched.stop();
      await smi.remove();
    }
  },
};
