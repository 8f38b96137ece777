/**
 * How an instance is put away: a released one is cleaned up behind, an archived one keeps its root disk as an image.
 */
import type { Archive } from '../../domain/instance.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import { backOffMs } from '../../domain/instance-states.ts';
import { endOperation } from '../../domain/operation.ts';
import { diagnosed } from '../../domain/plan.ts';
import { forgetMounts, freeNodePorts, uncountNodePorts } from '../../store/instances.ts';
import type { Db } from '../../store/store.ts';
import { dataDisk } from './spec.ts';
import { copying, keep, note, quick, type Rest, type Work } from './work.ts';

const REMOVE_AGAIN_MS = 60_000;

/**
 * A released instance: its container goes, and with it ports and mounts are free; then its data disk, however long that takes; then the
 * row only waits to leave the lists. A container that comes back by the late effect of a call is removed again, and nothing else is done twice.
 */
export async function clean(work: Work): Promise<Rest> {
  const { hands, needs } = work;
  const { id, everEnsured, nodePorts, observed, spec, archive } = work.instance;
  if (everEnsured) await hands.engine.destroy(id, quick(work));
  if (observed.phase === 'Cleaned') return null;
  if (observed.phase !== 'RemovingDisks') {
    const giveBack = async (tx: Db): Promise<void> => {
      await freeNodePorts(tx, id);
      await forgetMounts(tx, id);
      await uncountNodePorts(tx, spec.regionId, nodePorts.length);
    };
    const next = { ...observed, phase: 'RemovingDisks' as const, ...diagnosed('', '') };
    await keep(work, { ...work.instance, observed: next }, { beside: giveBack });
  }
  if (archive !== null) await hands.engine.removeImage(archive.ref, quick(work));
  try {
    await hands.storage.destroy(dataDisk(id));
  } catch (error) {
    needs.log.error({ id, err: error }, 'the data disk could not be removed; it is tried again');
    await note(work, { observed: diagnosed('DisksFailed', 'the data disk could not be removed yet') });
    return REMOVE_AGAIN_MS;
  }
  await note(work, { observed: { phase: 'Cleaned', ...diagnosed('', '') } });
  return null;
}

/** Where root disks are kept: a name that is no registry's, or one of the operator's registry. A new one for each archive. */
const archiveRef = ({ hands, instance }: Work): string =>
  `${hands.archivePrefix}/${instance.id}:${instance.generation}`;

/** Keeps the root disk as an image, in the local store and where the operator's registry is, then writes down that it is kept. */
export async function saveRoot(work: Work): Promise<Rest> {
  const { hands, instance } = work;
  const ref = archiveRef(work);
  await note(work, { observed: { phase: 'Archiving', message: '', ...diagnosed('', '') } });
  try {
    const { sizeBytes } = await hands.engine.saveImage(instance.id, ref, copying(work));
    if (hands.archivePushed) await hands.engine.pushImage(ref, () => {}, copying(work));
    const archive: Archive = { ref, sizeBytes, generation: instance.generation };
    await keep(work, { ...work.instance, archive });
  } catch (error) {
    if (!(error instanceof EngineFault) || error.kind === 'unreachable') throw error;
    return archiveFailed(work, error);
  }
  // What the last archive kept is of no use any more. If this fails, the sweep finds it.
  const before = instance.archive;
  if (before !== null && before.ref !== ref) await hands.engine.removeImage(before.ref, quick(work));
  return 'again';
}

async function archiveFailed(work: Work, fault: EngineFault): Promise<Rest> {
  const { needs, held } = work;
  held.signal.throwIfAborted();
  const attempts = work.instance.attempts + 1;
  needs.log.warn({ id: work.instance.id, err: fault }, 'the root disk could not be kept as an image');
  const observed = { ...work.instance.observed, ...diagnosed('ArchiveFailed', fault.message) };
  if (fault.retry && attempts <= needs.limits.maxAttempts) {
    await note(work, { attempts, observed });
    return backOffMs(attempts, needs.limits);
  }
  const operation = endOperation(work.instance.operation, 'Failed', needs.now());
  await keep(work, { ...work.instance, desired: 'stopped', operation, observed });
  return 'again';
}

/** The container whose root disk is kept goes, and its node ports with it: the next start draws others. */
export async function removeKept(work: Work): Promise<Rest> {
  const { hands, instance } = work;
  await hands.engine.destroy(instance.id, quick(work));
  const nodePorts = instance.nodePorts.map((one) => ({ ...one, nodePort: 0 }));
  await keep(work, { ...work.instance, nodePorts }, { beside: (tx) => freeNodePorts(tx, instance.id) });
  return 'again';
}
