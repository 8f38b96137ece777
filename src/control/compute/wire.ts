/** Instances: launch to end, what runs inside them, what stops them, and orphans. */
import { makeSemaphore, type Semaphore } from '../../async/semaphore.ts';
import { defaultIdleLimits, type IdleLimits } from '../../domain/compute/idle.ts';
import { defaultOrphanPolicy, type OrphanPolicy } from '../../domain/compute/orphan.ts';
import { initialStopPolicy, type StopPolicyRules } from '../../domain/compute/stop-policy.ts';
import type { AccessParts } from '../access/ports.ts';
import type { DeliveryParts } from '../delivery/ports.ts';
import { makeRegionTask, overlappingTask, task, type Kernel, type RegionDrivers, type Task } from '../kernel/ports.ts';
import { makeActsDue } from '../../store/tables/due-acts.ts';
import { saveSweep } from '../../store/tables/watches.ts';
import type { MoneyParts } from '../money/ports.ts';
import type { RegionParts } from '../regions/ports.ts';
import type { StorageParts } from '../storage/ports.ts';
import { makeEnforceMoney } from './auto-stop/enforce-money.ts';
import { makeIdleDetector } from './auto-stop/idle-detector.ts';
import { makeFollowWindow } from './auto-stop/off-peak-windows.ts';
import { makeResume } from './auto-stop/resume-stopped.ts';
import { makeSaveRootDisk } from './auto-stop/save-root-disks.ts';
import { makeStopDisabled } from './auto-stop/stop-disabled.ts';
import { makeStopPolicies, type StopPolicies } from './auto-stop/stop-policy.ts';
import { makeTimedStop } from './auto-stop/timed-stops.ts';
import { makeDeleteAccounts } from './delete-accounts.ts';
import { makeCommands, type Commands } from './inside/commands.ts';
import { makeListening, type Listening } from './inside/listening.ts';
import { makeLogs, type Logs } from './inside/logs/logs.ts';
import { makeFigures, type Figures } from './inside/metrics/figures.ts';
import { makeNotebookBar, type NotebookBar } from './inside/notebook-bar.ts';
import { makeMetrics, type Metrics } from './inside/metrics/metrics.ts';
import { makeSampler } from './inside/metrics/sampler.ts';
import { makeTerminalHost } from './inside/terminals/local-host.ts';
import type { TerminalHost } from './inside/terminals/terminal-host.ts';
import { makeTerminals, type Terminals } from './inside/terminals/terminals.ts';
import { makeAction, makeStopAutomatically } from './instances/actions.ts';
import { makeApplyEgress, makeEgressUseCases, type EgressUseCases } from './instances/egress.ts';
import { makeEnvironments, makeVariables, type Environments, type VariablesDeps } from './instances/environment.ts';
import { makeExpandDisk } from './instances/expand-disk.ts';
import { makeHealthChecks } from './instances/health.ts';
import { makeReadInstances, type ReadInstancesDeps, type Instances } from './instances/instances.ts';
import { makeLaunch } from './instances/launch.ts';
import { makeTemplates, type Templates } from './instances/launch-templates.ts';
import { makeOperations, type Operations } from './instances/operations.ts';
import { makeOperator, type Operator } from './instances/operator.ts';
import { makeInstanceReconciler } from './instances/reconcile-instance.ts';
import { makeSetBilling } from './instances/set-billing.ts';
import { makeUpdate } from './instances/update.ts';
import { makeWakes, type Wakes } from './instances/wake.ts';
import { deleteDiskOrphans, sweepDisks } from './orphans/disk-orphans.ts';
import { handleOrphans } from './orphans/handle-orphans.ts';
import { makeOrphans, type Orphans } from './orphans/orphans.ts';
import { sweepRegion } from './orphans/sweep.ts';
import { makeQuoteSigner } from './quotes/quote-signature.ts';
import { makeQuotes, type Quotes } from './quotes/quotes.ts';

export interface ComputeOptions extends Pick<ReadInstancesDeps, 'openUrl'>, Pick<VariablesDeps, 'portUrls'> {
  /** Concurrent container starts; about four per core of the engine. */
  engineWidth: number;
  stopPolicyRules?: StopPolicyRules;
  idleLimits?: Partial<IdleLimits>;
  orphans?: OrphanPolicy;
  /** Stopped time until an archive; default: never. */
  saveRootDiskAfterMs?: number | null;
  /** Terminals of a separate gateway process; default: local ones. */
  terminals?: TerminalHost;
}

/** Other processes may change the policies. */
const EGRESS_INTERVAL_MS = 3_000;
const EGRESS = 'egress policies';
/** An orphan must be seen twice, and is to be found within a minute. */
const SWEEP_INTERVAL_MS = 25_000;
const SWEEPS = ['sweep', 'sweep disks'] as const;
const HEALTH_INTERVAL_MS = 5_000;
const IDLE_INTERVAL_MS = 1_000;
const SAMPLE_INTERVAL_MS = 1_000;

export interface ComputeUseCases {
  commands: Commands;
  egress: EgressUseCases;
  environments: Environments;
  figures: Figures;
  instances: Instances;
  listening: Listening;
  logs: Logs;
  metrics: Metrics;
  notebookBar: NotebookBar;
  operations: Operations;
  operator: Operator;
  orphans: Orphans;
  quotes: Quotes;
  stopPolicies: StopPolicies;
  templates: Templates;
  terminals: Terminals;
  wakes: Wakes;
}

type Given = Kernel & AccessParts & DeliveryParts & MoneyParts & StorageParts & RegionParts & ComputeOptions;

function makeParts(parts: Given) {
  const { time, log, routes, randomUuid } = parts;
  const stopPolicyRules = parts.stopPolicyRules ?? { capRunMs: null, idle: null };
  const idleLimits = { ...defaultIdleLimits, ...parts.idleLimits };
  const stopAutomatically = makeStopAutomatically(parts);
  const sampler = makeSampler(parts);
  return {
    ...parts,
    idleLimits,
    orphans: parts.orphans ?? defaultOrphanPolicy,
    saveRootDiskAfterMs: parts.saveRootDiskAfterMs ?? null,
    stopPolicyRules,
    firstStopPolicy: initialStopPolicy(stopPolicyRules),
    quoteSigner: makeQuoteSigner(parts.secretsKey),
    variables: makeVariables(parts),
    stopAutomatically,
    idleDetector: makeIdleDetector({ ...parts, idleLimits, stopAutomatically }),
    sampler,
    health: makeHealthChecks({ ...parts, sampler }),
    terminalHost: makeTerminalHost({ engine: routes, holder: randomUuid(), time, log }),
  };
}

const makeSweep =
  (deps: Parts) =>
  async (drivers: RegionDrivers): Promise<void> => {
    const { store, metering, reserve } = deps;
    const { regionId } = drivers;
    const seenAtMs = metering.clock.now();
    const seen = await sweepRegion(deps, drivers);
    metering.saw(regionId, seenAtMs, seen);
    if (!reserve.isFull()) await store.write((tx) => saveSweep(tx, { regionId, seenAtMs, ...seen }));
  };

export function wireCompute(given: Given) {
  const deps = makeParts(given);
  const sweep = makeSweep(deps);
  const { idleDetector, sampler, stopAutomatically, terminalHost } = deps;
  const applyEgress = makeApplyEgress(deps);
  const logs = makeLogs(deps);
  return {
    parts: { stopAutomatically, sampler },
    useCases: useCasesOf(deps, logs),
    tasks: tasksOf(deps, { sweep, applyEgress: async () => void (await (await applyEgress()).passed) }),
    reconcilers: { instance: instanceReconciler(deps) },
    dueActs: {
      stop: makeTimedStop('stop', stopAutomatically),
      reclaim: makeTimedStop('reclaim', stopAutomatically),
      resume: makeResume(deps),
      window: makeFollowWindow(deps),
      saveRootDisk: makeSaveRootDisk(deps),
      disable: makeStopDisabled(deps),
      deleteAccount: makeDeleteAccounts(deps),
      money: makeEnforceMoney(deps),
    },
    applyEgress,
    sweep,
    async takeOver(): Promise<void> {
      // The setting may have changed.
      await deps.store.write((tx) => makeActsDue(tx, 'saveRootDisk', deps.time.now()));
      await deps.health.takeOver();
      await idleDetector.takeOver();
    },
    async endUses(): Promise<void> {
      logs.stop();
      await terminalHost.stop();
    },
    settled: () => idleDetector.settled(),
  };
}

type Parts = ReturnType<typeof makeParts>;

function useCasesOf(deps: Parts, logs: ComputeUseCases['logs']): ComputeUseCases {
  const { scheduler, routes, traffic } = deps;
  const reads = makeReadInstances(deps);
  const { openExec } = routes;
  const { beginTraffic } = traffic;
  const sweepSoon = (): void => {
    for (const name of SWEEPS) scheduler.runSoon(name);
  };
  return {
    instances: {
      ...reads,
      launch: makeLaunch(deps),
      start: makeAction('start', deps),
      stop: makeAction('stop', deps),
      restart: makeAction('restart', deps),
      archive: makeAction('archive', deps),
      terminate: makeAction('terminate', deps),
      update: makeUpdate(deps),
      expandDisk: makeExpandDisk(deps),
      setBilling: makeSetBilling(deps),
    },
    environments: makeEnvironments(deps),
    operations: makeOperations(deps),
    operator: makeOperator(deps, reads.get),
    stopPolicies: makeStopPolicies(deps),
    commands: makeCommands({ ...deps, openExec, beginTraffic }),
    terminals: makeTerminals({ ...deps, terminals: deps.terminals ?? deps.terminalHost, beginTraffic }),
    metrics: makeMetrics(deps),
    figures: makeFigures(deps),
    notebookBar: makeNotebookBar(deps),
    listening: makeListening(deps),
    logs,
    quotes: makeQuotes(deps),
    templates: makeTemplates(deps),
    egress: makeEgressUseCases({ ...deps, applySoon: () => scheduler.runSoon(EGRESS) }),
    orphans: makeOrphans({ ...deps, sweepSoon }),
    wakes: makeWakes(deps),
  };
}

function instanceReconciler(deps: Parts) {
  const semaphores = new WeakMap<RegionDrivers, Semaphore>();
  return makeInstanceReconciler({
    ...deps,
    credentialsFor: deps.registries.credentialsFor,
    engineSemaphore(drivers) {
      const semaphore = semaphores.get(drivers) ?? makeSemaphore(deps.engineWidth);
      semaphores.set(drivers, semaphore);
      return semaphore;
    },
  });
}

interface TaskWork {
  applyEgress: () => Promise<void>;
  sweep: (drivers: RegionDrivers) => Promise<void>;
}

function tasksOf(deps: Parts, { applyEgress, sweep }: TaskWork): Task[] {
  const { regions, reserve, health, sampler, idleDetector, idleLimits } = deps;
  const inEach = makeRegionTask(regions);
  return [
    overlappingTask(EGRESS, EGRESS_INTERVAL_MS, applyEgress),
    inEach(SWEEPS[0], SWEEP_INTERVAL_MS, async (drivers) => {
      if (!drivers.health.answers) return;
      await sweep(drivers);
      await handleOrphans(deps, drivers);
    }),
    inEach(SWEEPS[1], SWEEP_INTERVAL_MS, async (drivers) => {
      await sweepDisks(deps, drivers);
      await deleteDiskOrphans(deps, drivers);
    }),
    task('health', HEALTH_INTERVAL_MS, () => health.check()),
    task('idle detection', Math.min(IDLE_INTERVAL_MS, idleLimits.checkEveryMs), () => idleDetector.tick()),
    task('sample usage', SAMPLE_INTERVAL_MS, async () => (reserve.isFull() ? undefined : sampler.tick())),
  ];
}
