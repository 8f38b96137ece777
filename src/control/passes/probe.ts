/** Asks engines how they are, and keeps what regions can hold in step with it. */
import type { Probe } from '../../engines/contract.ts';
import { countedRegion, saveTotals } from '../../store/catalog.ts';
import { callLine } from '../line.ts';
import type { RegionHands } from '../regions.ts';
import { within, type DeedNeeds } from './deeds.ts';
import { sweepRegion } from './sweep.ts';

export interface ProbeNeeds extends DeedNeeds {
  /** CPU promised for each CPU that is there. */
  cpuOvercommit: number;
  /** Memory of each host that is not for instances: its own programs, the engine, Berth. */
  hostMemoryMiB: number;
  /** An engine answers that did not before (or was not asked). */
  onEngineAnswers: (hands: RegionHands, probe: Probe) => Promise<void>;
}

const PROBE_DEADLINE_MS = 10_000;

/** Asks each engine how it is; what it can hold is written to the region when it changed. */
export async function probeEngines(needs: ProbeNeeds): Promise<void> {
  await Promise.all(
    needs.regions.all().map(async (hands) => {
      const answeredBefore = hands.seen.answers;
      try {
        const probe = await hands.engine.probe(within(needs, PROBE_DEADLINE_MS));
        hands.seen = { probe, answers: true, text: `${probe.version} answers` };
        await saveCapacity(needs, hands);
      } catch (error) {
        if (needs.ending.aborted) return;
        const text = error instanceof Error ? error.message : String(error);
        hands.seen = { ...hands.seen, answers: false, text };
        if (answeredBefore)
          needs.log.warn({ region: hands.regionId, err: error }, 'the engine does not answer; instances wait for it');
      }
      if (!answeredBefore && hands.seen.answers && hands.seen.probe) await welcome(needs, hands, hands.seen.probe);
    }),
  );
}

/**
 * What is promised stays, whatever the engine says: if it has less than that, nobody is touched and nothing more of it is promised.
 * If it has more, the line may move.
 */
async function saveCapacity(
  { store, now, wake, log, cpuOvercommit, hostMemoryMiB }: ProbeNeeds,
  { regionId, nodePortRange, seen: { probe } }: RegionHands,
): Promise<void> {
  const counted = await countedRegion(store.read, regionId);
  if (!counted || !probe) return;
  const { capacity } = probe;
  const total = {
    cpuMilli: whole(capacity.cpuMilli * cpuOvercommit),
    memoryMiB: whole(capacity.memoryMiB - hostMemoryMiB),
    gpus: whole(capacity.gpus),
    nodePorts: nodePortRange.last - nodePortRange.first + 1,
  };
  const { total: was, used } = counted;
  const same =
    total.cpuMilli === was.cpuMilli &&
    total.memoryMiB === was.memoryMiB &&
    total.gpus === was.gpus &&
    total.nodePorts === was.nodePorts;
  if (same) return;
  await store.write(async (tx) => {
    await saveTotals(tx, regionId, total);
    await callLine(tx, regionId, now());
  });
  wake();
  if (total.cpuMilli < used.cpuMilli || total.memoryMiB < used.memoryMiB || total.gpus < used.gpus)
    log.warn(
      { region: regionId, total, promised: used },
      'the engine has less than is promised; no more of it is promised',
    );
}

/** An engine that says nonsense has nothing. */
const whole = (amount: number): number => (Number.isFinite(amount) ? Math.max(0, Math.floor(amount)) : 0);

/** An engine that answers again may hold other things than before. What fails here is done again with the next probe. */
async function welcome(needs: ProbeNeeds, hands: RegionHands, probe: Probe): Promise<void> {
  try {
    await needs.onEngineAnswers(hands, probe);
    await sweepRegion(needs, hands);
    needs.log.info({ region: hands.regionId, engine: probe.version }, 'the engine answers');
  } catch (error) {
    hands.seen = { ...hands.seen, answers: false };
    throw error;
  }
}
