/**
 * The pass of one instance: observe, plan, do, write down; again until the plan rests. It runs under a lease; every write is guarded
 * by it and by the generation, so that a result under an old wish is dropped. What it does outside (image, disks, engine) is
 * idempotent: a pass that was killed anywhere is simply begun anew.
 */
import type { Region } from '../../domain/catalog.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import { backOffMs, type Limits } from '../../domain/instance-states.ts';
import type { Instance, NodePort, Observed } from '../../domain/instance.ts';
import { diagnosed, giveUp, plan, type Seen, type Step } from '../../domain/plan.ts';
import { appendEvent, moveVersion } from '../../store/events.ts';
import {
  countCapacity,
  forgetMounts,
  freeNodePort,
  freeNodePorts,
  instanceFromRow,
  uncountNodePorts,
  writeFound,
  type InstanceRow,
} from '../../store/instances.ts';
import type { Db, Store } from '../../store/store.ts';
import type { FairQueue } from '../fair-queue.ts';
import type { ImageWork } from '../image-work.ts';
import type { Log } from '../log.ts';
import type { Held, Tended } from '../loop.ts';
import type { Offers } from '../offers.ts';
import type { RegionHands, Regions } from '../regions.ts';
import { allotNodePorts } from './node-ports.ts';
import { checkInit, checkReady } from './readiness.ts';
import { engineSpec, prepareDisks, VolumeNotReady } from './spec.ts';

export interface InstancePassNeeds {
  store: Store;
  regions: Regions;
  offers: () => Promise<Offers>;
  imageWork: ImageWork;
  fairQueue: (hands: RegionHands) => FairQueue;
  now: () => number;
  random: () => number;
  log: Log;
  limits: Limits;
  pidsLimit: number;
  routeChanged: (instanceId: string) => void;
}

/** Everything one run of the pass works with. */
export interface Work {
  needs: InstancePassNeeds;
  hands: RegionHands;
  region: Region;
  held: Held<InstanceRow>;
  instance: Instance;
  /** The secret that only the gateway and the notebook share. */
  notebookToken: string;
  holdsCapacity: boolean;
}

/** Somebody moved the row meanwhile: what was found is out of date. */
class Overtaken extends Error {}

/** Calls to an engine that should be quick end after this; a passed deadline means unknown. */
const CALL_DEADLINE_MS = 60_000;
const PROGRESS_EVERY_MS = 1_000;
const ASK_AGAIN_MS = 2_000;

export const quick = (signal: AbortSignal): AbortSignal => AbortSignal.any([signal, AbortSignal.timeout(CALL_DEADLINE_MS)]);

export function makeInstancePass(needs: InstancePassNeeds) {
  return async (held: Held<InstanceRow>): Promise<Tended> => {
    const counted = (await needs.offers()).regions.get(held.row.regionId);
    if (!counted) throw new Error(`region ${held.row.regionId} is not configured`);
    const work: Work = {
      needs,
      hands: needs.regions.of(held.row.regionId),
      region: counted.region,
      held,
      instance: instanceFromRow(held.row),
      notebookToken: held.row.notebookToken,
      holdsCapacity: held.row.holdsCapacity === 1,
    };
    try {
      return await bring(work);
    } catch (error) {
      if (error instanceof Overtaken || held.signal.aborted) return { dueAtMs: needs.now() };
      if (!(error instanceof EngineFault)) throw error;
      needs.log.warn({ id: held.row.id, kind: error.kind, err: error }, 'the engine could not do a step; it is asked again');
      return { dueAtMs: needs.now() + ASK_AGAIN_MS };
    }
  };
}

async function bring(work: Work): Promise<Tended> {
  const { needs } = work;
  for (;;) {
    const seen = await look(work);
    const step = plan(work.instance, seen, needs.now(), needs.limits);
    const restMs = await take(work, step);
    if (restMs === 'again') continue;
    return { dueAtMs: restMs === null ? null : needs.now() + restMs };
  }
}

/** Asks the engine, unless it was never asked to make anything. */
async function look({ hands, instance, held }: Work): Promise<Seen> {
  if (!instance.everEnsured) return { kind: 'absent' };
  const seen = (await hands.engine.observe([instance.id], quick(held.signal))).get(instance.id);
  return seen ?? { kind: 'unknown', reason: 'the engine gave no answer about this instance' };
}

type Rest = 'again' | number | null;

async function take(work: Work, step: Step): Promise<Rest> {
  const { needs, hands, instance, held } = work;
  switch (step.do) {
    case 'rest':
      return step.afterMs ?? null;
    case 'mark':
      await note(work, { observed: step.show, attempts: step.attempts });
      return step.afterMs ?? 'again';
    case 'giveUp':
      await note(work, { observed: step.show, desired: 'stopped' }, { freeCapacity: true });
      return 'again';
    case 'halt':
      if (Object.keys(step.show).length > 0) await note(work, { observed: step.show });
      await hands.engine.halt(instance.id, needs.limits.stopGraceMs, quick(held.signal));
      await note(work, { mustHalt: false });
      return 'again';
    case 'stopped':
      await note(work, { observed: { ...step.show, stoppedAtMs: needs.now() } }, { freeCapacity: true });
      return 'again';
    case 'destroy':
      return clean(work);
    case 'ensure':
      return ensure(work, step.show);
    case 'refresh':
      await hands.engine.ensure(await engineSpec(work), quick(held.signal));
      await note(work, { ensuredGeneration: instance.generation });
      return 'again';
    case 'checkReady':
      return checkReady(work, step.show);
    case 'checkInit':
      return checkInit(work);
    default:
      return step satisfies never;
  }
}

/** Image, disks, node ports, container. Each trouble is diagnosed; what may pass is tried again with back-off. */
async function ensure(work: Work, show: Partial<Observed>): Promise<Rest> {
  const { needs, hands, held } = work;
  try {
    await ensureImage(work, show);
    await prepareDisks(work);
    const nodePorts = await allot(work, show);
    if (nodePorts === null) return retryLater(work, 'PortTaken', 'no node port of the region is free; terminate an instance that has some');
    const spec = await engineSpec(work);
    await needs.fairQueue(hands).run(work.instance.ownerId, held.signal, () => hands.engine.ensure(spec, quick(held.signal)));
    work.instance = { ...work.instance, observed: { ...work.instance.observed, ...show, phase: 'WaitReady' }, ensuredGeneration: spec.generation };
    return 'again';
  } catch (error) {
    if (error instanceof VolumeNotReady) {
      if (error.lost) return settle(work, giveUp(work.instance, 'VolumeLost', error.message));
      await note(work, { observed: { ...show, phase: 'PrepareDisks', ...diagnosed('VolumePending', error.message) } });
      return 1_000;
    }
    if (error instanceof EngineFault) return afterFault(work, error);
    throw error;
  }
}

async function ensureImage(work: Work, show: Partial<Observed>): Promise<void> {
  const { needs, hands, held, instance } = work;
  let lastMs = 0;
  let writing: Promise<void> = Promise.resolve();
  const onProgress = ({ text }: { text: string }) => {
    if (needs.now() - lastMs < PROGRESS_EVERY_MS) return;
    lastMs = needs.now();
    const observed = { ...show, status: 'PullingImage', phase: 'DownloadImage', message: text, ...diagnosed('', '') } as const;
    writing = writing.then(() => note(work, { observed })).catch(() => {});
  };
  try {
    await needs.imageWork.ensure(hands.engine, instance.spec.image.ref, onProgress, held.signal);
  } catch (error) {
    await writing;
    if (error instanceof EngineFault) throw new ImageFault(error);
    throw error;
  }
  await writing;
}

/** A fault of the image, told apart from one of the container: it has a deadline of its own (interface-notes.md). */
class ImageFault extends EngineFault {
  constructor(fault: EngineFault) {
    super(fault.kind, fault.message, { retry: fault.retry, cause: fault.cause });
  }
}

async function afterFault(work: Work, fault: EngineFault): Promise<Rest> {
  const { needs, hands, instance, held } = work;
  needs.log.warn({ id: instance.id, kind: fault.kind, err: fault }, 'the engine could not do a step');
  if (fault.kind === 'unreachable' && !(await answers(hands, held.signal))) {
    await note(work, { observed: diagnosed('EngineUnreachable', fault.message) });
    return 2_000;
  }
  if (fault instanceof ImageFault) {
    if (needs.now() - instance.wishedAtMs > needs.limits.imageDeadlineMs) {
      return settle(work, giveUp({ everEnsured: true }, 'ImageFailed', fault.message));
    }
    const attempts = instance.attempts + 1;
    const status = instance.observed.status === 'Restarting' ? 'Restarting' : 'Starting';
    await note(work, { attempts, observed: { status, phase: 'DownloadImage', message: '', ...diagnosed('BackOff', fault.message) } });
    return backOffMs(attempts, needs.limits);
  }
  if (fault.takenNodePort !== undefined) return changeNodePort(work, fault.takenNodePort, fault.message);
  // The container can go back to wanting its image, for instance when somebody removed it from the engine meanwhile.
  if (fault.retry || fault.kind === 'not_found') return retryLater(work, fault.kind === 'not_found' ? 'BackOff' : 'EngineRejected', fault.message);
  return settle(work, giveUp(instance, 'EngineRejected', fault.message));
}

async function answers(hands: RegionHands, signal: AbortSignal): Promise<boolean> {
  try {
    await hands.engine.probe(AbortSignal.any([signal, AbortSignal.timeout(5_000)]));
    return true;
  } catch {
    return false;
  }
}

async function retryLater(work: Work, diagnosis: Observed['diagnosis'], text: string): Promise<Rest> {
  const { limits } = work.needs;
  const attempts = work.instance.attempts + 1;
  if (attempts > limits.maxAttempts) return settle(work, giveUp(work.instance, diagnosis, text));
  await note(work, { attempts, observed: diagnosed(diagnosis, text) });
  return backOffMs(attempts, limits);
}

const settle = (work: Work, step: Step): Promise<Rest> => take(work, step);

/** Writes down that the engine is about to be asked, with the node ports it is asked for; null when none is free. */
async function allot(work: Work, show: Partial<Observed>): Promise<NodePort[] | null> {
  const { instance, hands, needs } = work;
  let nodePorts: NodePort[] | null = instance.nodePorts;
  const observed = { ...instance.observed, ...show, phase: 'CreateContainer', message: '', ...diagnosed('', '') } as const;
  await needs.store.write(async (tx) => {
    nodePorts = await allotNodePorts(tx, hands, instance, needs.random);
    if (nodePorts) await write(tx, work, { ...instance, nodePorts, everEnsured: true, observed });
  });
  if (nodePorts) work.instance = { ...instance, nodePorts, everEnsured: true, observed };
  return nodePorts;
}

/** Another program of the host has the port: it is given up, and another one is allotted at the next try. */
async function changeNodePort(work: Work, taken: number, text: string): Promise<Rest> {
  const { instance, needs } = work;
  const nodePorts = instance.nodePorts.map((one) => (one.nodePort === taken ? { ...one, nodePort: 0 } : one));
  const attempts = instance.attempts + 1;
  const next = { ...instance, attempts, nodePorts, observed: { ...instance.observed, ...diagnosed('PortTaken', text) } };
  await needs.store.write(async (tx) => {
    await freeNodePort(tx, instance.spec.regionId, taken);
    await write(tx, work, next);
  });
  work.instance = next;
  return attempts > needs.limits.maxAttempts ? settle(work, giveUp(next, 'PortTaken', text)) : 'again';
}

/** A released instance: container, data disk, ports and mounts go; then its row only waits to leave the lists. */
async function clean(work: Work): Promise<Rest> {
  const { hands, instance, needs, held } = work;
  if (instance.everEnsured) await hands.engine.destroy(instance.id, quick(held.signal));
  await hands.storage.destroy({ kind: 'data', id: instance.id });
  const next = { ...instance, observed: { ...instance.observed, phase: 'Cleaned' as const } };
  await needs.store.write(async (tx) => {
    await write(tx, work, next);
    await freeNodePorts(tx, instance.id);
    await uncountNodePorts(tx, instance.spec.regionId, instance.nodePorts.length);
    await forgetMounts(tx, instance.id);
  });
  work.instance = next;
  return null;
}

interface Change {
  observed?: Partial<Observed>;
  desired?: Instance['desired'];
  attempts?: number | undefined;
  mustHalt?: boolean;
  ensuredGeneration?: number;
  initExit?: number;
}

/** Writes what was found, with the event of a changed status, if the row is still ours. */
export async function note(work: Work, change: Change, more: { freeCapacity?: boolean } = {}): Promise<void> {
  const { observed, ...rest } = change;
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  const next: Instance = { ...work.instance, ...known, observed: { ...work.instance.observed, ...observed } };
  const free = more.freeCapacity === true && work.holdsCapacity;
  await work.needs.store.write(async (tx) => {
    await write(tx, work, next, free ? { holdsCapacity: false } : {});
    if (free) await countCapacity(tx, next.spec.regionId, next.spec.type, -1);
  });
  work.instance = next;
  if (free) work.holdsCapacity = false;
}

async function write(tx: Db, work: Work, next: Instance, more: { holdsCapacity?: boolean } = {}): Promise<void> {
  const { held, instance, needs } = work;
  const hold = { id: instance.id, leaseToken: held.leaseToken, generation: instance.generation };
  if (!(await writeFound(tx, hold, next, work.region, more))) throw new Overtaken();
  const { status, phase, diagnosis } = next.observed;
  const was = instance.observed;
  if (status === was.status && phase === was.phase && diagnosis === was.diagnosis) {
    await moveVersion(tx, instance.ownerId);
  } else {
    await appendEvent(tx, {
      accountId: instance.ownerId,
      atMs: needs.now(),
      kind: 'instance.observed',
      subjectId: instance.id,
      data: { status, phase, ...(diagnosis === '' ? {} : { diagnosis }) },
    });
  }
  needs.routeChanged(instance.id);
}
