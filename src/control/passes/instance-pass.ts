/**
 * The pass of one instance: observe, plan, do, write down; again until the plan rests. It runs under a lease; every write is guarded
 * by it and by the generation, so that a result under an old wish is dropped. What it does outside (image, disks, engine) is
 * idempotent: a pass that was killed anywhere is simply begun anew.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import { backOffMs } from '../../domain/instance-states.ts';
import type { Observed } from '../../domain/instance.ts';
import { diagnosed, giveUp, plan, type Seen, type Step } from '../../domain/plan.ts';
import {
  forgetMounts,
  freeNodePort,
  freeNodePorts,
  instanceFromRow,
  markFiles,
  uncountNodePorts,
  type InstanceRow,
} from '../../store/instances.ts';
import type { EngineSpec } from '../../engines/contract.ts';
import type { Db } from '../../store/store.ts';
import type { Held, Tended } from '../loop.ts';
import { allotNodePorts, PortsUsedUp } from './node-ports.ts';
import { checkInit, checkReady } from './readiness.ts';
import { dataDisk, DisksFailed, engineSpec, prepareDisks, VolumeNotReady } from './spec.ts';
import { keep, note, Overtaken, quick, write, type InstancePassNeeds, type Work } from './work.ts';

const PROGRESS_EVERY_MS = 1_000;
const VOLUME_POLL_MS = 1_000;
const PROBE_DEADLINE_MS = 5_000;
const REMOVE_AGAIN_MS = 60_000;

export function makeInstancePass(needs: InstancePassNeeds) {
  return async (held: Held<InstanceRow>): Promise<Tended> => {
    const counted = (await needs.offers()).regions.get(held.row.regionId);
    if (!counted) throw new Error(`region ${held.row.regionId} is not configured`);
    const instance = instanceFromRow(held.row);
    const work: Work = {
      needs,
      hands: needs.regions.of(held.row.regionId),
      region: counted.region,
      held,
      instance,
      written: instance,
      notebookToken: held.row.notebookToken,
      holdsCapacity: held.row.holdsCapacity === 1,
      justSeen: null,
    };
    try {
      return await bring(work);
    } catch (error) {
      if (error instanceof Overtaken || held.signal.aborted) return { dueAtMs: needs.now() };
      if (!(error instanceof EngineFault)) throw error;
      needs.log.warn(
        { id: held.row.id, kind: error.kind, err: error },
        'the engine could not do a step; it is asked again',
      );
      return { dueAtMs: needs.now() + needs.limits.askAgainMs };
    }
  };
}

async function bring(work: Work): Promise<Tended> {
  const { needs } = work;
  for (let before: Step['do'] | null = null; ;) {
    const seen = await look(work);
    const step = plan(work.instance, seen, needs.now(), needs.limits);
    // The engine said that it had halted it, and it runs.
    if (step.do === 'halt' && before === 'halt') return { dueAtMs: needs.now() + needs.limits.askAgainMs };
    const restMs = await take(work, step);
    before = step.do;
    if (restMs === 'again') continue;
    return { dueAtMs: restMs === null ? null : needs.now() + restMs };
  }
}

/** Asks the engine, unless it was never asked to make anything. */
async function look(work: Work): Promise<Seen> {
  const { hands, instance, justSeen } = work;
  work.justSeen = null;
  if (justSeen) return justSeen;
  if (!instance.everEnsured) return { kind: 'absent' };
  const seen = (await hands.engine.observe([instance.id], quick(work))).get(instance.id);
  return seen ?? { kind: 'unknown', reason: 'the engine gave no answer about this instance' };
}

type Rest = 'again' | number | null;

async function take(work: Work, step: Step): Promise<Rest> {
  const { needs, hands, instance } = work;
  switch (step.do) {
    case 'rest':
      return step.afterMs ?? null;
    case 'mark':
      await note(work, { observed: step.show, attempts: step.attempts });
      return step.afterMs ?? 'again';
    case 'giveUp':
      await note(
        work,
        { observed: { ...step.show, stoppedAtMs: needs.now() }, desired: 'stopped' },
        { freeCapacity: true },
      );
      return 'again';
    case 'halt':
      if (Object.keys(step.show).length > 0) await note(work, { observed: step.show });
      await hands.engine.halt(instance.id, needs.limits.stopGraceMs, quick(work));
      return 'again';
    case 'stopped':
      await note(work, { observed: { ...step.show, stoppedAtMs: needs.now() } }, { freeCapacity: true });
      return 'again';
    case 'destroy':
      return clean(work);
    case 'ensure':
      return ensure(work, step.show);
    case 'refresh':
      return refresh(work);
    case 'checkReady':
      return checkReady(work, step.show);
    case 'checkInit':
      return checkInit(work);
    default:
      return step satisfies never;
  }
}

/** Hands a running instance the present control files. */
async function refresh(work: Work): Promise<Rest> {
  const { needs, instance } = work;
  const mark = (stale: boolean): Promise<void> => needs.store.write((tx) => markFiles(tx, instance.id, stale));
  await mark(false);
  try {
    await bringUp(work, await engineSpec(work));
  } catch (error) {
    await mark(true);
    if (!(error instanceof DisksFailed)) throw error;
    needs.log.warn({ id: instance.id, err: error.cause }, error.message);
    return needs.limits.askAgainMs;
  }
  work.instance = { ...instance, filesStale: false };
  return 'again';
}

/** Image, disks, node ports, container. Each trouble is diagnosed; what may pass is tried again with back-off. */
async function ensure(work: Work, show: Partial<Observed>): Promise<Rest> {
  try {
    const imageWasMissing = work.instance.observed.phase === 'DownloadImage';
    await ensureImage(work, show);
    // The tries of an image are bounded by a deadline, those of a container by their number: one must not count for the other.
    if (imageWasMissing) work.instance = { ...work.instance, attempts: 0 };
    await prepareDisks(work);
    await allot(work, show);
    const spec = await engineSpec(work);
    await bringUp(work, spec);
    work.instance = {
      ...work.instance,
      observed: { ...work.instance.observed, ...show, phase: 'WaitReady' },
    };
    return 'again';
  } catch (error) {
    if (error instanceof VolumeNotReady) {
      if (error.lost) return take(work, giveUp(work.instance, 'VolumeLost', error.message));
      await note(work, { observed: { ...show, phase: 'PrepareDisks', ...diagnosed('VolumePending', error.message) } });
      return VOLUME_POLL_MS;
    }
    if (error instanceof DisksFailed) {
      work.needs.log.error({ id: work.instance.id, err: error.cause }, error.message);
      return retryLater(work, 'DisksFailed', error.message, { ...show, phase: 'PrepareDisks' });
    }
    if (error instanceof PortsUsedUp) return retryLater(work, 'PortTaken', error.message);
    if (error instanceof EngineFault) return afterFault(work, error);
    throw error;
  }
}

/** Asks the engine when it is the owner's turn. */
async function bringUp(work: Work, spec: EngineSpec): Promise<void> {
  const { needs, hands, held, instance } = work;
  work.justSeen = await needs
    .fairQueue(hands)
    .run(instance.ownerId, held.signal, () => hands.engine.ensure(spec, quick(work)));
}

async function ensureImage(work: Work, show: Partial<Observed>): Promise<void> {
  const { needs, hands, held, instance } = work;
  let lastMs = 0;
  let writing: Promise<void> = Promise.resolve();
  const onProgress = ({ text }: { text: string }) => {
    if (needs.now() - lastMs < PROGRESS_EVERY_MS) return;
    lastMs = needs.now();
    const observed = {
      ...show,
      status: 'PullingImage',
      phase: 'DownloadImage',
      message: text,
      ...diagnosed('', ''),
    } as const;
    writing = writing.then(() => note(work, { observed })).catch(() => {});
  };
  const { imageDeadlineMs } = needs.limits;
  const overdue = new AbortController();
  const timer = setTimeout(() => {
    const text = `the image was not there after ${Math.round(imageDeadlineMs / 1000)} s`;
    overdue.abort(new ImageFault(new EngineFault('unreachable', text, { retry: false })));
  }, imageDeadlineMs);
  try {
    const signal = AbortSignal.any([held.signal, overdue.signal]);
    await needs.imageWork.ensure(hands.engine, instance.spec.image.ref, onProgress, signal);
  } catch (error) {
    throw error instanceof EngineFault && !(error instanceof ImageFault)
      ? new ImageFault(error, { retry: true })
      : error;
  } finally {
    clearTimeout(timer);
    await writing;
  }
}

/** A fault of the image, told apart from one of the container: until its deadline all of them are tried again (interface-notes.md). */
class ImageFault extends EngineFault {
  constructor(fault: EngineFault, { retry } = { retry: fault.retry }) {
    super(fault.kind, fault.message, { retry, cause: fault.cause });
  }
}

async function afterFault(work: Work, fault: EngineFault): Promise<Rest> {
  const { needs, instance, held } = work;
  // A call that this pass gave up itself says nothing about the engine.
  held.signal.throwIfAborted();
  needs.log.warn({ id: instance.id, kind: fault.kind, err: fault }, 'the engine could not do a step');
  // Of a pull, the registry may be away as well as the engine. Of all else it is the engine, and what came of the call is unknown.
  if (fault.kind === 'unreachable' && !(fault instanceof ImageFault && (await answers(work)))) {
    await note(work, { observed: diagnosed('EngineUnreachable', fault.message) });
    return needs.limits.askAgainMs;
  }
  if (fault instanceof ImageFault) {
    // A wish may be old when its image is missing for the first time, because the engine lost it: so it is tried a few times at least.
    const late =
      needs.now() - instance.wishedAtMs > needs.limits.imageDeadlineMs && instance.attempts >= needs.limits.maxAttempts;
    if (late || !fault.retry) return take(work, giveUp(instance, 'ImageFailed', fault.message, 'StartingFailed'));
    const attempts = instance.attempts + 1;
    const status = instance.observed.status === 'Restarting' ? 'Restarting' : 'Starting';
    await note(work, {
      attempts,
      observed: { status, phase: 'DownloadImage', message: '', ...diagnosed('BackOff', fault.message) },
    });
    return backOffMs(attempts, needs.limits);
  }
  if (fault.takenNodePort !== undefined) return changeNodePort(work, fault.takenNodePort, fault.message);
  // The container can go back to wanting its image, for instance when somebody removed it from the engine meanwhile.
  if (fault.retry || fault.kind === 'not_found')
    return retryLater(work, fault.kind === 'not_found' ? 'BackOff' : 'EngineRejected', fault.message);
  return take(work, giveUp(instance, 'EngineRejected', fault.message));
}

async function answers({ hands, held }: Work): Promise<boolean> {
  try {
    await hands.engine.probe(AbortSignal.any([held.signal, AbortSignal.timeout(PROBE_DEADLINE_MS)]));
    return true;
  } catch {
    return false;
  }
}

async function retryLater(
  work: Work,
  diagnosis: Observed['diagnosis'],
  text: string,
  show: Partial<Observed> = {},
): Promise<Rest> {
  const { limits } = work.needs;
  const attempts = work.instance.attempts + 1;
  if (attempts > limits.maxAttempts) return take(work, giveUp(work.instance, diagnosis, text));
  await note(work, { attempts, observed: { ...show, ...diagnosed(diagnosis, text) } });
  return backOffMs(attempts, limits);
}

/** Writes down that the engine is about to be asked, with the node ports it is asked for. */
async function allot(work: Work, show: Partial<Observed>): Promise<void> {
  const { instance, hands, needs } = work;
  const observed = {
    ...instance.observed,
    ...show,
    phase: 'CreateContainer',
    message: '',
    ...diagnosed('', ''),
  } as const;
  work.instance = work.written = await needs.store.write(async (tx) => {
    const nodePorts = await allotNodePorts(tx, hands, instance, needs.random);
    const allotted = { ...instance, nodePorts, everEnsured: true, mustHalt: false, observed };
    await write(tx, work, allotted);
    return allotted;
  });
}

/** Another program of the host has the port: it is given up, and another one is allotted at the next try. */
async function changeNodePort(work: Work, taken: number, text: string): Promise<Rest> {
  const { instance, needs } = work;
  const nodePorts = instance.nodePorts.map((one) => (one.nodePort === taken ? { ...one, nodePort: 0 } : one));
  const attempts = instance.attempts + 1;
  const next = {
    ...instance,
    attempts,
    nodePorts,
    observed: { ...instance.observed, ...diagnosed('PortTaken', text) },
  };
  await keep(work, next, { beside: (tx) => freeNodePort(tx, instance.id, taken) });
  return attempts > needs.limits.maxAttempts ? take(work, giveUp(next, 'PortTaken', text)) : 'again';
}

/**
 * A released instance: its container goes, and with it ports and mounts are free; then its data disk, however long that takes; then the
 * row only waits to leave the lists. A container that comes back by the late effect of a call is removed again, and nothing else is done twice.
 */
async function clean(work: Work): Promise<Rest> {
  const { hands, needs } = work;
  const { id, everEnsured, nodePorts, observed, spec } = work.instance;
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
