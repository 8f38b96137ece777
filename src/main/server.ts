/**
 * A whole Berth, wired and started: store, control, API and gateway. Nothing here reads the
 * environment, so that tests start the very same server, on other ports and with other hands.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Forwarding } from '../control/index.ts';
import { makeRevocations } from '../control/routing/revocations.ts';
import { makeControl, type RunningControl } from '../control/wiring.ts';
import { makeRegions } from '../control/base/regions.ts';
import { realTime, type Time } from '../control/base/time.ts';
import type { Region } from '../domain/catalog.ts';
import { idlePolicy, type IdleLimits } from '../domain/idle.ts';
import type { Limits } from '../domain/instance-states.ts';
import { makeApi } from '../edge/http/api.ts';
import { makeTerminalClient } from '../edge/link/terminal-client.ts';
import { serveLink } from '../edge/link/serve.ts';
import { makeSshFronts } from '../edge/ssh/fronts.ts';
import { checkSsh2 } from '../edge/ssh/ssh2-inside.ts';
import { lockDatabase } from '../store/db/database-lock.ts';
import { lockFolder } from '../store/db/folder-lock.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { readSpace } from '../storage/layout.ts';
import { addressesOf, openUrl, portUrls, sharedParent, shareUrl } from './addresses.ts';
import { ensureAdmin, type ShownPassword } from './admin-password.ts';
import type { Config } from './config.ts';
import * as firstRun from './first-run.ts';
import { linkPath, openGateway, terminalsPath } from './gateway.ts';
import { makeDrivers, type Drivers } from './drivers.ts';
import { allowEmptyReplacements } from './lost-disks.ts';
import { sshFiles } from './open-files.ts';
import { makePools } from './pools.ts';
import { offerRegistryImages, prepareImage } from './prepare-images.ts';
import { ensureSecretsKey } from './secrets-key.ts';
import { openTlsFiles } from './tls-files.ts';
import { VERSION } from './version.ts';

export interface Server {
  apiUrl: string;
  gatewayUrl: string;
  adminPassword: ShownPassword | null;
  /** For a first launch to copy. */
  example: { region: string; imageId: string; instanceTypeId: string };
  store: Store;
  running: RunningControl;
  drivers: Drivers;
  stop(): Promise<void>;
}

export interface ServerOptions {
  config: Config;
  log: Logger;
  limits?: Partial<Limits>;
  idleLimits?: Partial<IdleLimits>;
  time?: Time;
  /** The database was taken by another server: this one must end. */
  onDatabaseLost?: () => void;
}

export async function startServer(options: ServerOptions): Promise<Server> {
  const { config: asked, log, limits = {}, idleLimits = {}, time = realTime, onDatabaseLost = () => {} } = options;
  const { dataFolder, databaseUrl } = asked;
  await mkdir(dataFolder, { recursive: true, mode: 0o711 });
  const lock = lockFolder(dataFolder);
  const opened: (() => Promise<unknown>)[] = [async () => lock.release()];
  const stop = async (): Promise<void> => {
    for (const end of opened.splice(0).reverse()) await end();
  };
  try {
    if (databaseUrl !== null) {
      const databaseLock = await lockDatabase({ url: databaseUrl, log, onLost: onDatabaseLost });
      opened.push(() => databaseLock.release());
    }
    const store = await openStore({ url: databaseUrl ?? undefined, file: join(dataFolder, 'berth.db'), log });
    opened.push(() => store.stop());
    const installation = await firstRun.installationId(store, randomUUID());
    const regionId = await firstRun.defaultRegionId(store, randomUUID());
    const config = await firstRun.keepNodePortAddress(asked, store, regionId);
    await allowEmptyReplacements(store, config.lostDisks, log);
    const pools = await makePools({ config, store, installation, log });
    const dataDiskGB = await firstRun.ensureDataDiskGB(store, pools);
    const sharedDiskGB = config.sharedDiskGB ?? dataDiskGB;
    const drivers = await makeDrivers(config, regionId, { pools, sharedDiskGB }, installation, log);
    opened.push(() => drivers.drivers.engine.stop());

    // The gateway listens first: the region's domain is its address unless one is configured.
    const late: { running: RunningControl | null } = { running: null };
    const ready = (): RunningControl => {
      if (!late.running) throw new Error('the gateway was asked before control was there');
      return late.running;
    };
    const ports = { api: config.listen.port, gateway: config.gatewayListen.port };
    const endings = makeRevocations();
    const forwarding: Forwarding = {
      route: (id) => ready().control.forwarding.route(id),
      redeem: (key) => ready().control.forwarding.redeem(key),
      session: (secret) => ready().control.forwarding.session(secret),
      share: (token) => ready().control.forwarding.share(token),
      ssh: (id) => ready().control.forwarding.ssh(id),
      dial: (id, port, signal) => ready().control.forwarding.dial(id, port, signal),
      beginTraffic: (id, kind) => ready().control.forwarding.beginTraffic(id, kind),
      onRevoked: endings.onRevoked,
    };
    if (config.role === 'all') {
      const { portDomain } = addressesOf(config, ports);
      const gateway = await openGateway(config, {
        forwarding,
        authenticate: (credential) => ready().access.authenticate(credential),
        issuer: installation,
        apiOrigin: () => addressesOf(config, ports).apiUrl,
        portDomain: () => portDomain,
        log,
      });
      opened.push(() => gateway.stop());
      ports.gateway = gateway.port;
    }
    const { gatewayUrl, domain } = addressesOf(config, ports);

    const machine = firstRun.thisMachine();
    const region: Region = {
      id: regionId,
      name: 'default',
      value: 'default',
      location: 'local',
      domain,
      sshAddress: config.nodePortAddress ?? config.loopbackNodePortAddress ?? config.publicAddress,
      engine: config.engine,
    };
    await firstRun.saveDefaultRegion(store, region, machine, config);
    const types = await firstRun.saveTypes(
      store,
      regionId,
      firstRun.typesThatFit({ ...machine, dataDiskGB }),
      randomUUID,
    );
    const offer = (image: firstRun.OfferedImage): Promise<string> =>
      firstRun.offerImage(
        store,
        { ...image, architecture: machine.architecture },
        { nowMs: time.now(), uuid: randomUUID },
      );
    const imageId = await offer({ key: 'notebook', ...drivers.notebookImage });

    const terminals = config.role === 'api' ? makeTerminalClient({ path: terminalsPath(config) }) : null;
    if (terminals) opened.push(async () => terminals.stop());
    const running = makeControl({
      ...(terminals ? { terminals } : {}),
      store,
      regions: makeRegions([drivers.drivers]),
      log,
      time,
      random: Math.random,
      randomUuid: randomUUID,
      randomBytes,
      secretsKey: await ensureSecretsKey(dataFolder),
      openUrl: (link) => openUrl(addressesOf(config, ports), link),
      portUrls: (at) => portUrls(addressesOf(config, ports), at),
      shareUrl: (link) => shareUrl(addressesOf(config, ports), link),
      issuer: installation,
      audience: 'berth',
      engineWidth: drivers.width,
      cpuOvercommit: config.cpuOvercommit,
      hostMemoryMiB: firstRun.HOST_MEMORY_MIB,
      dataSpace: () => readSpace(dataFolder),
      onEngineAnswers: async (_, probe) => {
        const types = firstRun.typesThatFit({ ...firstRun.machineOf(probe), dataDiskGB });
        await firstRun.saveTypes(store, regionId, types, randomUUID);
      },
      limits,
      endsRules: { capRunMs: config.maxRunMs, idle: config.idleStopMs === null ? null : idlePolicy(config.idleStopMs) },
      idleLimits,
      eventsKeptMs: config.eventRetentionMs,
      orphans: config.orphans,
      localRegistries: config.localRegistries,
      alone: true,
    });
    late.running = running;
    running.control.forwarding.onRevoked(endings.publish);
    await running.access.ensureSigningKey();
    const adminPassword = await ensureAdmin(running.access, config);

    await running.freeSpace.measure();
    const tls = config.apiTls === null ? null : await openTlsFiles(config.apiTls, log);
    opened.push(async () => tls?.stop());
    const api = makeApi({
      control: running.control,
      log,
      version: VERSION,
      gatewayOrigin: gatewayUrl,
      secureCookies: addressesOf(config, ports).apiUrl.startsWith('https:'),
      ...(tls === null ? {} : { tls }),
      ownOrigins: config.apiUrl === null ? [] : [config.apiUrl],
      trustProxy: config.trustedProxies,
    });
    await api.listen({ host: config.listen.host, port: config.listen.port });
    opened.push(() => api.close());
    const [listening] = api.addresses();
    if (typeof listening === 'object') ports.api = listening.port;
    warnOfSharedParent(sharedParent(addressesOf(config, ports)), log);
    await running.start();
    opened.push(() => running.stop());

    if (config.role === 'all') {
      const { routeTable } = running.control;
      const { engine } = drivers.drivers;
      await checkSsh2();
      const fronts = makeSshFronts({ backend: engine, access: forwarding.ssh, log, files: await sshFiles() });
      const following = new AbortController();
      const followed = routeTable.follow(fronts.update, following.signal, { onlyRunning: true });
      opened.push(async () => {
        following.abort();
        await followed;
        await fronts.stop();
      });
    }
    if (config.role === 'api') {
      const { control, access } = running;
      const link = await serveLink({
        path: linkPath(config),
        routeTable: control.routeTable,
        forwarding: control.forwarding,
        authenticate: (credential) => access.authenticate(credential),
        issuer: installation,
        log,
      });
      opened.push(() => link.stop());
    }

    const aside = new AbortController();
    const { imagePulls } = running;
    const work = [
      prepareImage({ imagePulls, engine: drivers.drivers.engine, ref: drivers.notebookImage.ref, log }, aside.signal),
      firstRun.refreshPublicTexts(store, region, aside.signal),
      ...(config.registryImages ? [offerRegistryImages({ offer, log }, aside.signal)] : []),
    ];
    for (const one of work) one.catch((error: unknown) => log.error({ err: error }, 'work beside the serving failed'));
    opened.push(async () => {
      aside.abort();
      await Promise.allSettled(work);
    });

    return {
      ...addressesOf(config, ports),
      adminPassword,
      example: { region: regionId, imageId, instanceTypeId: types[0]?.id ?? '' },
      store,
      running,
      drivers,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function warnOfSharedParent(domain: string | null, log: Logger): void {
  if (domain === null) return;
  const text = `pages on hosts of ports can set cookies for ${domain}, which browsers send to the API, too: they could log people out of it. Give instances a domain of their own (BERTH_DOMAIN), or the API another name (BERTH_API_URL)`;
  log.warn({ domain }, text);
}
