/**
 * Wires control: the use cases by subject over one foundation, and the background that carries
 * their decisions out.
 */
import { initialStopPolicy } from '../domain/stop-policy.ts';
import { instancePage } from '../store/tables/instances.ts';
import { makeVolumePages } from '../store/tables/volume-pages.ts';
import { ownedVolume } from '../store/tables/volumes.ts';
import type { InternalAccess } from './access/access.ts';
import { makeAction } from './instances/actions.ts';
import { makeCatalog } from './capacity/catalog.ts';
import { makeCommands } from './inside/commands.ts';
import { locateVolume } from './volumes/disks.ts';
import { makeStopPolicies } from './auto-stop/stop-policy.ts';
import { makeEventFeed } from './routing/event-feed.ts';
import { makeExpandDisk } from './instances/expand-disk.ts';
import { makeFiles } from './volumes/files.ts';
import type { ImagePulls } from './images/image-pulls.ts';
import { makeImages } from './images/images.ts';
import { makeLaunch } from './instances/launch.ts';
import { makeLogs } from './inside/logs/logs.ts';
import { makeMetrics } from './inside/metrics/metrics.ts';
import { makeMountVolume } from './volumes/mounts.ts';
import { makeOperations } from './instances/operations.ts';
import { makePorts } from './routing/ports.ts';
import type { FreeSpaceMonitor } from './volumes/free-space.ts';
import { makeSshIdentity } from './routing/ssh-host-key.ts';
import { makeOrphans } from './orphans/orphans.ts';
import { makeTerminalHost } from './inside/terminals/local-host.ts';
import type { TerminalHost } from './inside/terminals/terminal-host.ts';
import { makeTerminals } from './inside/terminals/terminals.ts';
import { makeSnapshots } from './volumes/snapshots.ts';
import { makeVolumes } from './volumes/volumes.ts';
import type { Caller } from './base/caller.ts';
import type { Control } from './index.ts';
import type { Change } from './base/changes.ts';
import { makeBackground, SWEEP_TASKS } from './background.ts';
import { makeFoundation, type ControlDeps, type Foundation } from './foundation.ts';
import { makeOpen } from './instances/open.ts';

export type { ControlDeps };

export interface RunningControl {
  control: Control;
  access: InternalAccess;
  imagePulls: ImagePulls;
  freeSpace: FreeSpaceMonitor;
  /** Starts loops, watches and tasks. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function makeControl(deps: ControlDeps): RunningControl {
  const foundation = makeFoundation(deps);
  const { store, time, log, accountVersions, routes, regions, access } = foundation;
  const background = makeBackground(foundation);
  const terminalHost = makeTerminalHost({ engine: routes, holder: deps.randomUuid(), time, log });
  const events = makeEventFeed({ store, moves: accountVersions });
  const logs = makeLogs({ store, regions, time, moves: accountVersions });
  return {
    control: {
      ...storageUseCases(foundation),
      ...instanceUseCases(foundation),
      ...insideUseCases(foundation, deps.terminals ?? terminalHost),
      ...accessUseCases(foundation),
      ...operatorUseCases(foundation),
      events,
      logs,
      versionOf: async (accountId) => store.versionOf(accountId),
    },
    access,
    imagePulls: foundation.imagePulls,
    freeSpace: foundation.freeSpace,
    start: () => background.start(),
    async stop() {
      foundation.stopping.abort();
      events.stop();
      logs.stop();
      await terminalHost.stop();
      await background.stop();
    },
  };
}

/** Publishes the change once the use case has committed. */
const publishing =
  <More extends unknown[], Answer>(
    { changes }: Foundation,
    useCase: (caller: Caller, ...more: More) => Promise<Answer>,
    changeOf: (caller: Caller) => Change,
  ) =>
  async (caller: Caller, ...more: More): Promise<Answer> => {
    const answer = await useCase(caller, ...more);
    changes.publish(changeOf(caller));
    return answer;
  };

function accessUseCases(foundation: Foundation): Pick<Control, 'access' | 'forwarding' | 'routeTable' | 'ports'> {
  const { deps, store, readCatalog, now, changes, access, shares, routes, routeTable, traffic } = foundation;
  const filesStale = (): Change => ({ subject: 'instance', isDue: true });
  const credentialsRevoked = ({ accountId: id }: Caller): Change => ({ subject: 'account', id });
  return {
    access: {
      ...access,
      createSshKey: publishing(foundation, access.createSshKey, filesStale),
      deleteSshKey: publishing(foundation, access.deleteSshKey, filesStale),
      logout: publishing(foundation, access.logout, credentialsRevoked),
      changePassword: publishing(foundation, access.changePassword, credentialsRevoked),
      deleteApiKey: publishing(foundation, access.deleteApiKey, credentialsRevoked),
      revokeSession: publishing(foundation, access.revokeSession, credentialsRevoked),
    },
    ports: {
      ...makePorts({ store, readCatalog, now, changes, portUrls: deps.portUrls }),
      share: shares.share,
      shares: shares.shares,
      async unshare(caller, body, idempotency) {
        await shares.unshare(caller, body, idempotency);
        changes.publish({ subject: 'instance', id: body.instanceId });
      },
    },
    forwarding: {
      route: routes.route,
      dial: routes.dial,
      beginTraffic: traffic.beginTraffic,
      redeem: access.grants.redeem,
      session: access.grants.session,
      share: shares.resolve,
      onRevoked: foundation.revocations.onRevoked,
      ssh: makeSshIdentity({ store, sshHostKey: foundation.sshHostKey }),
    },
    routeTable: { follow: routeTable.follow },
  };
}

function storageUseCases(
  foundation: Foundation,
): Pick<Control, 'images' | 'registries' | 'volumes' | 'snapshots' | 'files'> {
  const { store, regions, time, diskUses, freeSpace, randomUuid, localRegistries, imagePulls } = foundation;
  const shared = { ...foundation.actionDeps, randomUuid };
  const volumeDeps = { ...shared, freeSpace, pages: makeVolumePages() };
  return {
    images: makeImages({ ...shared, imagePulls, localRegistries }),
    registries: foundation.registries,
    volumes: makeVolumes(volumeDeps),
    snapshots: makeSnapshots(volumeDeps),
    files: makeFiles({
      findVolume: (accountId, id) => ownedVolume(store.read, accountId, id),
      mountVolume: makeMountVolume({ locate: (volume) => locateVolume(store.read, regions, volume), time }),
      uses: diskUses,
    }),
  };
}

function instanceUseCases(foundation: Foundation): Pick<Control, 'instances' | 'operations' | 'stopPolicies'> {
  const { deps, store, readCatalog, now, actionDeps, freeSpace, randomUuid, randomSecret } = foundation;
  const { stopPolicyRules: rules, idleDetector, access } = foundation;
  const { get, ...operations } = makeOperations(actionDeps);
  const stopPolicy = initialStopPolicy(rules);
  return {
    instances: {
      launch: makeLaunch({ ...actionDeps, freeSpace, randomUuid, randomSecret, initialStopPolicy: stopPolicy }),
      list: (caller, { currentPage, pageSize }) =>
        instancePage(store.read, caller.accountId, (currentPage - 1) * pageSize, pageSize),
      start: makeAction('start', actionDeps),
      stop: makeAction('stop', actionDeps),
      restart: makeAction('restart', actionDeps),
      archive: makeAction('archive', actionDeps),
      terminate: makeAction('terminate', actionDeps),
      expandDisk: makeExpandDisk({ ...actionDeps, freeSpace }),
      get,
      open: makeOpen({ store, grant: access.grants.grant, openUrl: deps.openUrl }),
    },
    operations,
    stopPolicies: makeStopPolicies({ store, readCatalog, now, rules, idleDetector }),
  };
}

function insideUseCases(
  { store, now, time, routes, traffic, sampler }: Foundation,
  terminals: TerminalHost,
): Pick<Control, 'commands' | 'terminals' | 'metrics'> {
  return {
    commands: makeCommands({ store, openExec: routes.openExec, beginTraffic: traffic.beginTraffic, time }),
    terminals: makeTerminals({ store, terminals, beginTraffic: traffic.beginTraffic }),
    metrics: makeMetrics({ store, now, sampler }),
  };
}

function operatorUseCases(foundation: Foundation): Pick<Control, 'catalog' | 'orphans' | 'tasks' | 'health'> {
  const { store, readCatalog, regions, now, time, log, changes, randomSecret, scheduler } = foundation;
  return {
    catalog: makeCatalog({ readCatalog, regions, store, now }),
    orphans: makeOrphans({
      store,
      readCatalog,
      regions,
      time,
      log,
      changes,
      randomSecret,
      firstEnds: initialStopPolicy(foundation.stopPolicyRules),
      orphans: foundation.taskDeps.orphans,
      sweepSoon() {
        for (const name of SWEEP_TASKS) scheduler.runSoon(name);
      },
    }),
    tasks: { list: async () => scheduler.statuses() },
    async health() {
      try {
        await store.ping();
      } catch (error) {
        log.error({ err: error }, 'the store does not answer');
        return { ready: false, text: 'the store does not answer' };
      }
      const texts = regions.all().map(({ health }) => health.text);
      return { ready: true, text: texts.join('; ') };
    },
  };
}
