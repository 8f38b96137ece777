/** Wires control: use cases by subject, and the background that carries their decisions out. */
import { makeBooks } from './billing/books.ts';
import { makeChargeExports } from './billing/focus-charges.ts';
import { makePayments } from './billing/payments.ts';
import { makeReadStripe } from './billing/stripe.ts';
import { makeStatements } from './billing/statement.ts';
import { makeUsage } from './billing/usage-report.ts';
import { makeWebhooks } from './webhooks/webhooks.ts';
import { makeRecordedRedeem, makeRecordSshLogin } from './audit/gateway-records.ts';
import { activeIdsOf } from '../store/tables/instance-queries.ts';
import { ownedVolume } from '../store/tables/volumes.ts';
import type { InternalAccess } from './access/access.ts';
import { makeAction } from './instances/actions.ts';
import { makeCatalog } from './capacity/catalog.ts';
import { makeTemplates } from './instances/launch-templates.ts';
import { makeFigures } from './inside/metrics/figures.ts';
import { makeFleet } from './capacity/fleet.ts';
import { makeOfferedImages } from './catalog/offered-images.ts';
import { makeOfferedTypes } from './catalog/offered-types.ts';
import { makeApplyPrices } from './catalog/due-prices.ts';
import { makePriceHistory } from './catalog/price-history.ts';
import { makeAddRegion } from './catalog/add-region.ts';
import { makeWithdrawPrices } from './catalog/scheduled-prices.ts';
import { makeRegionAdministration } from './catalog/region-facts.ts';
import { makeSetBilling } from './billing/set-billing.ts';
import { makeCommands } from './inside/commands.ts';
import { locateVolume } from './volumes/disks.ts';
import { makeStopPolicies } from './auto-stop/stop-policy.ts';
import { makeEventFeed } from './events/event-feed.ts';
import { makeEnvironments } from './instances/environment.ts';
import { makeUpdate } from './instances/update.ts';
import { makeExpandDisk } from './instances/expand-disk.ts';
import { makeFiles } from './volumes/files.ts';
import type { ImagePulls } from './images/image-pulls.ts';
import { makeImages } from './images/images.ts';
import { makeLaunch } from './instances/launch.ts';
import { makeLogs } from './inside/logs/logs.ts';
import { makeMetrics } from './inside/metrics/metrics.ts';
import { makeOpenFiles } from './volumes/mounts.ts';
import { makeEgressUseCases } from './instances/egress.ts';
import { makeOperator } from './instances/operator.ts';
import { makeOperations } from './instances/operations.ts';
import { makePorts } from './routing/ports.ts';
import type { FreeSpaceMonitor } from './volumes/free-space.ts';
import { makeSshIdentity } from './routing/ssh-host-key.ts';
import { makeQuotes } from './billing/quotes.ts';
import { makeCredits } from './billing/credits.ts';
import { makeBudgets } from './billing/budgets.ts';
import { makeQuotas } from './quotas/quotas.ts';
import { makeOrphans } from './orphans/orphans.ts';
import { makeTerminalHost } from './inside/terminals/local-host.ts';
import type { TerminalHost } from './inside/terminals/terminal-host.ts';
import { makeTerminals } from './inside/terminals/terminals.ts';
import { makeSnapshots } from './volumes/snapshots.ts';
import { makeVolumes } from './volumes/volumes.ts';
import { storageFull } from '../domain/refusal.ts';
import type { Caller, Mutation } from './base/caller.ts';
import type { SshBackend } from './routing/gateway-types.ts';
import type { Control } from './index.ts';
import type { Change } from './base/changes.ts';
import {
  DISABLED_TASK,
  EGRESS_TASK,
  makeBackground,
  PROBE_TASK,
  REGION_TEXTS_TASK,
  SWEEP_TASKS,
} from './background.ts';
import { makeFoundation, type ControlDeps, type Foundation } from './base/foundation.ts';
import { makeReadInstances } from './instances/instances.ts';

export type { ControlDeps };

export interface RunningControl {
  control: Control;
  access: InternalAccess;
  imagePulls: ImagePulls;
  freeSpace: FreeSpaceMonitor;
  sshBackend: SshBackend;
  /** Applies scheduled prices that are due; a task follows after `start`. */
  applyPrices(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function makeControl(deps: ControlDeps): RunningControl {
  const foundation = makeFoundation(deps);
  const { store, time, log, routes, access, shutdown, reserve } = foundation;
  const background = makeBackground(foundation);
  const terminalHost = makeTerminalHost({ engine: routes, holder: deps.randomUuid(), time, log });
  const events = makeEventFeed(foundation);
  const logs = makeLogs(foundation);
  return {
    control: {
      ...storageUseCases(foundation),
      ...instanceUseCases(foundation),
      ...insideUseCases(foundation, deps.terminals ?? terminalHost),
      ...accessUseCases(foundation),
      ...catalogUseCases(foundation),
      ...operatorUseCases(foundation),
      quotas: makeQuotas(foundation),
      budgets: makeBudgets(foundation),
      credits: makeCredits(foundation),
      quotes: makeQuotes(foundation),
      templates: makeTemplates(foundation),
      events,
      logs,
      versionOf: async (accountId) => store.versionOf(accountId),
      refuseIfFull() {
        if (reserve.isFull()) throw storageFull({ goesOn: 'reads, logins, stops and deletions go on' });
      },
    },
    access,
    imagePulls: foundation.imagePulls,
    freeSpace: foundation.freeSpace,
    sshBackend: routes,
    applyPrices: makeApplyPrices(foundation),
    start: () => background.start(),
    async stop() {
      shutdown.abort();
      events.stop();
      logs.stop();
      await terminalHost.stop();
      await background.stop();
    },
  };
}

const FULL_TEXT = 'the disk of the data folder is full: only logins, stops and deletions are stored';

/** Publishes the change once the use case has committed. */
const publishing =
  <More extends unknown[], Answer>(
    { changes }: Foundation,
    useCase: (caller: Caller, ...more: More) => Promise<Answer>,
    changeOf: (caller: Caller, ...more: More) => Change,
  ) =>
  async (caller: Caller, ...more: More): Promise<Answer> => {
    const answer = await useCase(caller, ...more);
    changes.publish(changeOf(caller, ...more));
    return answer;
  };

/** Rechecks what is open of the account and at its instances; stops those of a disabled one. */
async function publishAccount({ store, changes, scheduler }: Foundation, id: string): Promise<void> {
  changes.publish({ subject: 'account', id });
  for (const instanceId of await activeIdsOf(store.read, id)) changes.publish({ subject: 'instance', id: instanceId });
  scheduler.runSoon(DISABLED_TASK);
}

function accessUseCases(
  foundation: Foundation,
): Pick<Control, 'access' | 'accounts' | 'forwarding' | 'routeTable' | 'ports'> {
  const { access, shares, routes, routeTable, traffic, revocations } = foundation;
  const filesStale = (): Change => ({ subject: 'instance', isDue: true });
  const { administration } = access;
  const cuttingOff =
    <Body extends { accountId: string }, Answer>(useCase: Mutation<Body, Answer>): Mutation<Body, Answer> =>
    async (caller, body, idempotency) => {
      const answer = await useCase(caller, body, idempotency);
      await publishAccount(foundation, body.accountId);
      return answer;
    };
  const loginsEnded = <Answer extends { accountId: string }>(answer: Answer): Answer => {
    foundation.changes.publish({ subject: 'account', id: answer.accountId });
    return answer;
  };
  const credentialsRevoked = ({ accountId: id }: Caller): Change => ({ subject: 'account', id });
  return {
    access: {
      ...access,
      createSshKey: publishing(foundation, access.createSshKey, filesStale),
      deleteSshKey: publishing(foundation, access.deleteSshKey, filesStale),
      logout: publishing(foundation, access.logout, credentialsRevoked),
      revokeLogin: publishing(foundation, access.revokeLogin, credentialsRevoked),
      changePassword: publishing(foundation, access.changePassword, credentialsRevoked),
      deleteApiKey: publishing(foundation, access.deleteApiKey, credentialsRevoked),
      revokeSession: publishing(foundation, access.revokeSession, credentialsRevoked),
    },
    accounts: {
      ...administration,
      disable: cuttingOff(administration.disable),
      enable: cuttingOff(administration.enable),
      delete: cuttingOff(administration.delete),
      restore: cuttingOff(administration.restore),
      setPassword: (body, from) => administration.setPassword(body, from).then(loginsEnded),
      async resetAtHost(username) {
        const answer = loginsEnded(await administration.resetAtHost(username));
        foundation.audit.noticePending();
        return answer;
      },
    },
    ports: {
      ...makePorts(foundation),
      share: shares.share,
      shares: shares.shares,
      unshare: publishing(foundation, shares.unshare, (_, { instanceId: id }) => ({ subject: 'instance', id })),
    },
    forwarding: {
      route: routes.route,
      dial: routes.dial,
      beginTraffic: traffic.beginTraffic,
      redeem: makeRecordedRedeem(foundation),
      session: access.grants.session,
      share: shares.resolve,
      onRevoked: revocations.onRevoked,
      ssh: makeSshIdentity(foundation),
      recordSshLogin: makeRecordSshLogin(foundation),
    },
    routeTable: { follow: routeTable.follow },
  };
}

function storageUseCases(
  foundation: Foundation,
): Pick<Control, 'images' | 'registries' | 'volumes' | 'snapshots' | 'files'> {
  const { store, regions, time } = foundation;
  return {
    images: makeImages(foundation),
    registries: foundation.registries,
    volumes: makeVolumes(foundation),
    snapshots: makeSnapshots(foundation),
    files: makeFiles({
      findVolume: (accountId, id) => ownedVolume(store.read, accountId, id),
      openFiles: makeOpenFiles({ locate: (volume) => locateVolume(store.read, regions, volume), time }),
      uses: foundation.diskHolders,
    }),
  };
}

function instanceUseCases(
  foundation: Foundation,
): Pick<Control, 'environments' | 'instances' | 'operations' | 'operator' | 'stopPolicies'> {
  const reads = makeReadInstances(foundation);
  return {
    environments: makeEnvironments(foundation),
    instances: {
      ...reads,
      launch: makeLaunch(foundation),
      start: makeAction('start', foundation),
      stop: makeAction('stop', foundation),
      restart: makeAction('restart', foundation),
      archive: makeAction('archive', foundation),
      terminate: makeAction('terminate', foundation),
      update: makeUpdate(foundation),
      expandDisk: makeExpandDisk(foundation),
      setBilling: makeSetBilling(foundation),
    },
    operations: makeOperations(foundation),
    operator: makeOperator(foundation, reads.get),
    stopPolicies: makeStopPolicies(foundation),
  };
}

function insideUseCases(
  foundation: Foundation,
  terminals: TerminalHost,
): Pick<Control, 'commands' | 'terminals' | 'metrics' | 'figures'> {
  const { openExec } = foundation.routes;
  const { beginTraffic } = foundation.traffic;
  return {
    commands: makeCommands({ ...foundation, openExec, beginTraffic }),
    terminals: makeTerminals({ ...foundation, terminals, beginTraffic }),
    metrics: makeMetrics(foundation),
    figures: makeFigures(foundation),
  };
}

function catalogUseCases(
  foundation: Foundation,
): Pick<Control, 'catalog' | 'fleet' | 'priceHistory' | 'offeredTypes' | 'offeredImages' | 'regionAdministration'> {
  const { scheduler, freeSpace } = foundation;
  const ofRegions = {
    ...foundation,
    rewriteTexts: () => scheduler.runSoon(REGION_TEXTS_TASK),
    async onServed() {
      await freeSpace.measure();
      scheduler.runSoon(PROBE_TASK);
    },
  };
  return {
    catalog: makeCatalog(foundation),
    fleet: makeFleet(foundation),
    priceHistory: { ...makePriceHistory(foundation), withdraw: makeWithdrawPrices(foundation) },
    offeredTypes: makeOfferedTypes(foundation),
    offeredImages: makeOfferedImages(foundation),
    regionAdministration: { ...makeRegionAdministration(ofRegions), create: makeAddRegion(ofRegions) },
  };
}

function operatorUseCases(
  foundation: Foundation,
): Pick<
  Control,
  | 'audit'
  | 'books'
  | 'chargeExports'
  | 'payments'
  | 'usage'
  | 'statements'
  | 'webhooks'
  | 'orphans'
  | 'heldDisks'
  | 'tasks'
  | 'health'
  | 'egress'
> {
  const { store, regions, log, scheduler, heldDisks } = foundation;
  const sweepSoon = (): void => {
    for (const name of SWEEP_TASKS) scheduler.runSoon(name);
  };
  return {
    audit: foundation.audit,
    books: makeBooks(foundation),
    chargeExports: makeChargeExports(foundation),
    payments: makePayments({
      ...foundation,
      readStripe: foundation.stripeSecret === undefined ? undefined : makeReadStripe(foundation.stripeSecret),
    }),
    usage: makeUsage(foundation),
    statements: makeStatements(foundation),
    webhooks: makeWebhooks(foundation),
    egress: makeEgressUseCases({ ...foundation, applySoon: () => scheduler.runSoon(EGRESS_TASK) }),
    orphans: makeOrphans({ ...foundation, sweepSoon }),
    heldDisks,
    tasks: { list: async () => scheduler.statuses() },
    async health() {
      try {
        await store.ping();
      } catch (error) {
        log.error({ err: error }, 'the store does not answer');
        return { ready: false, isDegraded: true, text: 'the store does not answer' };
      }
      const unwritten = foundation.audit.unwritten();
      const troubles = [
        ...(foundation.reserve.isFull() ? [FULL_TEXT] : []),
        ...(unwritten === 0 ? [] : [`${unwritten} records of the audit log wait to be stored`]),
      ];
      const texts = regions.all().map(({ health }) => health.text);
      return { ready: true, isDegraded: troubles.length > 0, text: [...troubles, ...texts].join('; ') };
    },
  };
}
