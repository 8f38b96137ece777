/**
 * Wires control: each subject gets the kernel, the parts of the subjects below it, and what it
 * needs from those above; then its loops and tasks carry out what the use cases decided.
 */
import { storageFull } from '../domain/kernel/refusal.ts';
import { subjectKinds } from '../domain/compute/operation.ts';
import { releaseAllLeases } from '../store/db/leases.ts';
import { dueKinds } from '../store/tables/due-acts.ts';
import { wireAccess, type AccessOptions, type AccessParts } from '../control/access/wire.ts';
import { wireCompute, type ComputeOptions } from '../control/compute/wire.ts';
import { watchEngines } from '../control/compute/orphans/sweep.ts';
import { wireDelivery, type DeliveryOptions } from '../control/delivery/wire.ts';
import type { Control } from '../control/index.ts';
import { makeDueWork } from '../control/kernel/due-work.ts';
import { startReconcileLoop, type ReconcileLoop, type ReconcileLoopDeps } from '../control/kernel/reconcile-loop.ts';
import { wireKernel, type Kernel, type KernelOptions } from '../control/kernel/wire.ts';
import { wireMoney, type MoneyOptions } from '../control/money/wire.ts';
import { wireRegions, type RegionOptions } from '../control/regions/wire.ts';
import { wireStorage, type StorageOptions } from '../control/storage/wire.ts';

export type ControlDeps = KernelOptions &
  AccessOptions &
  DeliveryOptions &
  MoneyOptions &
  StorageOptions &
  RegionOptions &
  ComputeOptions & {
    /** Further sentences of the health page; default: none. */
    troubles?: () => string[];
  };

export function makeControl(options: ControlDeps) {
  const { parts: kernel, tasks: kernelTasks, retention } = wireKernel(options);
  const { shutdown, log, store, scheduler } = kernel;
  const base = { ...options, ...kernel };
  const access = wireAccess(base);
  const delivery = wireDelivery(base);
  const money = wireMoney(base);
  const storage = wireStorage({ ...base, ...money.parts });
  const regions = wireRegions({ ...base, ...money.parts, ...storage.parts });
  const parts = { ...base, ...access.parts, ...delivery.parts, ...money.parts, ...storage.parts, ...regions.parts };
  const compute = wireCompute(parts);
  const needs = { ...compute.parts, sweep: compute.sweep };
  const probe = regions.probeFor(needs);
  const dueWork = makeDueWork(kernel, {
    ...money.dueActs(needs),
    ...regions.dueActs(needs),
    ...compute.dueActs,
    retention: retention.handler,
  });
  const tasks = [
    dueWork.task,
    ...kernelTasks,
    ...access.tasks,
    ...delivery.tasks,
    ...money.tasks(needs),
    ...storage.tasks(needs),
    ...regions.tasks(needs, probe),
    ...compute.tasks,
  ];
  const control: Control = {
    ...access.useCases,
    ...delivery.useCases,
    ...money.useCases,
    ...storage.useCases,
    ...regions.useCases(needs),
    ...compute.useCases,
    ...healthOf({ ...kernel, ...access.parts, troubles: options.troubles ?? (() => []) }),
    tasks: { list: async () => scheduler.statuses(), due: () => dueKinds(store.read) },
    versionOf: async (accountId) => store.versionOf(accountId),
  };
  let loops: ReconcileLoop[] = [];
  let firstProbe: Promise<void> = Promise.resolve();
  return {
    control,
    access: access.parts.access,
    imagePulls: regions.parts.imagePulls,
    freeSpace: storage.parts.freeSpace,
    sshBackend: access.parts.routes,
    /** Applies scheduled prices that are due; a task follows after `start`. */
    applyPrices: regions.applyPrices,
    async start(): Promise<void> {
      if (options.alone) await store.write((tx) => releaseAllLeases(tx, kernel.time.now()));
      await money.start();
      await compute.takeOver();
      await retention.insert();
      // Before a loop starts instances: an engine enforces what it knows.
      await compute.applyEgress();
      const leaseOwner = kernel.randomUuid();
      const reconcilers = { ...compute.reconcilers, ...storage.reconcilers, ...regions.reconcilers };
      loops = [...startLoops({ ...kernel, leaseOwner }, reconcilers), dueWork.start(leaseOwner)];
      watchEngines(kernel);
      scheduler.start(tasks);
      firstProbe = probe().catch((error: unknown) => log.warn({ err: error }, 'the first probe failed'));
    },
    async stop(): Promise<void> {
      shutdown.abort();
      delivery.parts.events.stop();
      await compute.endUses();
      const idle = scheduler.stop();
      await storage.endUses();
      await Promise.all(loops.map((loop) => loop.stop()));
      await Promise.allSettled([idle, firstProbe, compute.settled()]);
      await delivery.parts.webhookDelivery.idle();
      await access.parts.audit.stop();
      await storage.unmountAll();
    },
  };
}

export type RunningControl = ReturnType<typeof makeControl>;

interface Reconcilers {
  instance: ReconcileLoopDeps<'instance'>['reconcile'];
  volume: ReconcileLoopDeps<'volume'>['reconcile'];
  snapshot: ReconcileLoopDeps<'snapshot'>['reconcile'];
  image: ReconcileLoopDeps<'image'>['reconcile'];
}

function startLoops(
  deps: Kernel & { leaseOwner: string },
  { instance, volume, snapshot, image }: Reconcilers,
): ReconcileLoop[] {
  const loops = {
    instance: startReconcileLoop({ ...deps, table: 'instance', reconcile: instance }),
    volume: startReconcileLoop({ ...deps, table: 'volume', reconcile: volume }),
    snapshot: startReconcileLoop({ ...deps, table: 'snapshot', reconcile: snapshot }),
    image: startReconcileLoop({ ...deps, table: 'image', reconcile: image }),
  };
  for (const subject of subjectKinds)
    deps.changes.subscribe(subject, ({ isDue }) => {
      if (isDue) loops[subject].wake();
    });
  return Object.values(loops);
}

const FULL_TEXT = 'the disk of the data folder is full: only logins, stops and deletions are stored';

const healthOf = ({
  store,
  regions,
  log,
  reserve,
  audit,
  troubles: others,
}: Kernel & Pick<AccessParts, 'audit'> & Required<Pick<ControlDeps, 'troubles'>>): Pick<
  Control,
  'health' | 'refuseIfFull'
> => ({
  async health() {
    try {
      await store.ping();
    } catch (error) {
      log.error({ err: error }, 'the store does not answer');
      return { ready: false, isDegraded: true, text: 'the store does not answer' };
    }
    const unwritten = audit.unwritten();
    const troubles = [
      ...(reserve.isFull() ? [FULL_TEXT] : []),
      ...(unwritten === 0 ? [] : [`${unwritten} records of the audit log wait to be stored`]),
      ...others(),
    ];
    const texts = regions.all().map(({ health }) => health.text);
    return { ready: true, isDegraded: troubles.length > 0, text: [...troubles, ...texts].join('; ') };
  },
  refuseIfFull() {
    if (reserve.isFull()) throw storageFull({ goesOn: 'reads, logins, stops and deletions go on' });
  },
});
