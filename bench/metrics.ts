/**
 * Cost of metric sampling with a thousand running instances: CPU, memory, longest event-loop delay,
 * and daily database growth. Three simulated hours with real samples in SQLite.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { join } from 'node:path';
import { sql } from 'kysely';
import { makeSampler } from '../src/control/compute/inside/metrics/sampler.ts';
import { makeRegions, type RegionDrivers } from '../src/control/kernel/regions.ts';
import { realTime } from '../src/control/kernel/time.ts';
import { HOUR_MS } from '../src/domain/kernel/durations.ts';
import { SAMPLE_MS } from '../src/domain/compute/metrics.ts';
import { instanceId, regionId, userId } from '../src/domain/kernel/ids.ts';
import { makeVirtualClock } from '../test/fixtures/virtual-clock.ts';
import { makeSimulatedEngine } from '../src/engines/simulated/simulated.ts';
import { openStore } from '../src/store/open.ts';
import type { Store } from '../src/store/store.ts';
import type { Bench } from './bench.ts';
import { shown } from './lib/numbers.ts';
import { seed } from './lib/seed.ts';
import { quietLog } from './lib/settings.ts';

const RUNNING = 1_000;
const HOURS = 3;
const ASKED_SHARE = 0.01;
const ASKED_BYTES = 300_000_000;
const START_MS = 1_780_000_000_000;
const MB = 1_000_000;
const IMAGE = 'berth.local/bench:1';

export const metrics: Bench = {
  title: `figures of ${RUNNING.toLocaleString('en')} running instances, sampled every 15 s, SQLite, simulated engine`,
  async run({ folder, flags, say }) {
    const hours = flags.has('--short') ? 1 : HOURS;
    say(`  seeding ${RUNNING.toLocaleString('en')} rows`);
    await seed(folder, RUNNING, say);
    const file = join(folder, 'berth.db');
    const store = await openStore({ file, log: quietLog });
    await store.write(async (tx) => {
      await sql`update instance set status = 'Running', desired = 'running'`.execute(tx);
      await sql`insert into "nodePort" ("regionId", "nodePort", "instanceId", port)
        select "regionId", 100000 + rowid, id, 22 from instance`.execute(tx);
    });
    const rows = await store.read.selectFrom('instance').select(['id', 'ownerId', 'regionId']).execute();
    const clock = makeVirtualClock(START_MS);
    const capacity = { cpuMilli: 1e9, memoryMiB: 1e9, gpus: {} };
    const engine = makeSimulatedEngine({ installation: 'bench', capacity, clock });
    const signal = new AbortController().signal;
    await clock.run(engine.ensureImage(IMAGE, () => {}, signal));
    const ensured = rows.map(({ id, ownerId }) =>
      engine.ensure(
        {
          id: instanceId(id),
          ownerId: userId(ownerId),
          generation: 1,
          hostname: id,
          imageRef: IMAGE,
          cpuMilli: 1_000,
          memoryMiB: 2_048,
          pidsLimit: 4_096,
          gpus: 0,
          mounts: [],
          nodePorts: [],
          nodePortAddress: '127.0.0.1',
          files: [],
        },
        signal,
      ),
    );
    await clock.run(Promise.all(ensured));
    const drivers: RegionDrivers = {
      regionId: regionId(rows[0]?.regionId ?? ''),
      engine,
      pools: [],
      sharedDiskGB: 0,
      nodePortRange: { first: 1, last: 2 },
      nodePortAddress: '127.0.0.1',
      commonDataFolder: folder,
      cpuOvercommit: 1,
      hostMemoryMiB: 0,
      archivePrefix: '',
      archivePushed: false,
      savedPrefix: '',
      startScript: '',
      jupyterConfig: '',
      health: { probe: null, answers: true, text: '' },
    };
    const sampler = makeSampler({
      store,
      regions: makeRegions([drivers]),
      time: { ...realTime, now: clock.now },
      log: quietLog,
      changes: { publish: () => {} },
      stopping: signal,
    });
    const before = { bytes: await sizeOf(store), heap: heapBytes() };
    const blocked = monitorEventLoopDelay({ resolution: 1 });
    const ticks = (hours * HOUR_MS) / SAMPLE_MS;
    blocked.enable();
    const beganCpu = process.cpuUsage();
    for (let at = 0; at < ticks; at++, await clock.advance(SAMPLE_MS)) await sampler.tick();
    const cpu = process.cpuUsage(beganCpu);
    blocked.disable();
    const after = { bytes: await sizeOf(store), heap: heapBytes() };
    const beganMs = performance.now();
    const id = rows[0]?.id ?? '';
    const minutes = await sampler.minutesOf(id, clock.now() - hours * HOUR_MS);
    const readMs = performance.now() - beganMs;
    await store.stop();
    await engine.stop();
    if (minutes.length < hours * 60) throw new Error(`${minutes.length} minutes are told of ${hours} hours`);
    const cpuMs = (cpu.user + cpu.system) / 1_000;
    const share = cpuMs / (hours * HOUR_MS);
    const longestMs = blocked.max / 1e6;
    const { hourBytes, minuteBytes } = after.bytes;
    const dayBytes = (hourBytes / Math.max(1, hours - 1)) * 25 + minuteBytes;
    const aSample = shown(cpuMs / ticks);
    return {
      table: [
        ['', 'measured'],
        ['processor, of one core', `${shown(share * 100)} %`],
        [
          `of all ${RUNNING.toLocaleString('en')}, a sample and its share of what a minute and an hour end with`,
          `${aSample} ms`,
        ],
        ['longest that anything else waited', `${shown(longestMs)} ms`],
        ['memory, an instance', `${shown((after.heap - before.heap) / RUNNING / 1_000)} KB`],
        ['in the database: the minutes of all, two hours of them', `${shown(minuteBytes / MB)} MB`],
        [
          'in the database: hours, an instance and hour',
          `${shown(hourBytes / Math.max(1, hours - 1) / RUNNING / 1_000)} KB`,
        ],
        ['in the database when full, a day', `${shown(dayBytes / MB)} MB`],
        [`the minutes of one instance, ${hours} hours, read`, `${shown(readMs)} ms`],
      ],
      verdicts: [
        { asked: 'less than 1 % of a core', measured: `${shown(share * 100)} %`, met: share < ASKED_SHARE },
        { asked: 'less than 300 MB of database', measured: `${shown(dayBytes / MB)} MB`, met: dayBytes < ASKED_BYTES },
      ],
      notes: [
        `The control's own work with the simulated engine's: what a real engine does for its answers is not in it. ${hours} hours of samples of simulated time in a row, with figures that differ each time; processor is user and system of the whole process.`,
      ],
    };
  },
};

/** Size of the metrics only. */
async function sizeOf(store: Store): Promise<{ minuteBytes: number; hourBytes: number }> {
  const { rows } = await sql<{ minuteBytes: number | null; hourBytes: number | null }>`
    select (select sum(length(body)) from "metricMinute") as "minuteBytes",
      (select sum(length(body)) from "metricHour") as "hourBytes"`.execute(store.read);
  return { minuteBytes: rows[0]?.minuteBytes ?? 0, hourBytes: rows[0]?.hourBytes ?? 0 };
}

function heapBytes(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
