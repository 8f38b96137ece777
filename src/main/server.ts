/**
 * A whole Berth, wired and started: store, control, API and gateway. Nothing here reads the environment, so that tests start the
 * very same server, on other ports and with other hands.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { makeControl, type RunningControl } from '../control/make-control.ts';
import { makeRegions } from '../control/regions.ts';
import type { Region } from '../domain/catalog.ts';
import type { Limits } from '../domain/instance-states.ts';
import { makeGateway } from '../edge/gateway/gateway.ts';
import { makeApi } from '../edge/http/api.ts';
import { lockFolder } from '../store/lock.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { hostPort, type Config } from './config.ts';
import * as firstRun from './first-run.ts';
import { makeHands, type Hands } from './hands.ts';
import { offerRegistryImages } from './registry-images.ts';

export const VERSION = '0.1.0';
const PASSWORD_FILE = 'admin-password';
/** Dollars of the first account: it is the operator's own, and the ledger comes later. */
const ADMIN_BALANCE = 1_000_000;

export interface Server {
  apiUrl: string;
  gatewayUrl: string;
  adminPassword: { text: string; file: string } | null;
  /** For a first launch to copy. */
  example: { region: string; imageId: string; instanceTypeId: string };
  store: Store;
  running: RunningControl;
  hands: Hands;
  stop(): Promise<void>;
}

export interface ServerOptions {
  config: Config;
  log: Logger;
  limits?: Partial<Limits>;
  now?: () => number;
}

export async function startServer({ config, log, limits = {}, now = Date.now }: ServerOptions): Promise<Server> {
  const { dataFolder } = config;
  await mkdir(dataFolder, { recursive: true, mode: 0o711 });
  const lock = lockFolder(dataFolder);
  const opened: (() => Promise<unknown>)[] = [async () => lock.release()];
  const stop = async (): Promise<void> => {
    for (const end of opened.splice(0).reverse()) await end();
  };
  try {
    const store = await openStore({ url: config.databaseUrl ?? undefined, file: join(dataFolder, 'berth.db'), log });
    opened.push(() => store.stop());
    const installation = await firstRun.installationId(store, randomUUID());
    const regionId = await firstRun.defaultRegionId(store, randomUUID());
    const hands = await makeHands(config, regionId, installation, log);
    opened.push(() => hands.hands.engine.stop());

    // The gateway listens first: the region's domain is its address unless one is configured.
    const late: { running: RunningControl | null } = { running: null };
    const ready = (): RunningControl => {
      if (!late.running) throw new Error('the gateway was asked before control was there');
      return late.running;
    };
    const gateway = makeGateway({
      forwarding: {
        route: (id) => ready().control.forwarding.route(id),
        redeem: (key) => ready().control.forwarding.redeem(key),
        session: (secret) => ready().control.forwarding.session(secret),
        dial: (id, port, signal) => ready().control.forwarding.dial(id, port, signal),
      },
      authenticate: (credential) => ready().access.authenticate(credential),
      issuer: installation,
      ...(config.gatewayUrl === null ? {} : { publicOrigin: config.gatewayUrl }),
      apiOrigin: config.apiUrl ?? `http://${hostPort(config.listen)}`,
      log,
    });
    await gateway.listen(config.gatewayListen.host, config.gatewayListen.port);
    opened.push(() => gateway.stop());
    const gatewayUrl = config.gatewayUrl ?? `http://${config.domain ?? gateway.address}`;

    const machine = firstRun.thisMachine();
    const region: Region = {
      id: regionId,
      name: 'default',
      value: 'default',
      location: 'local',
      domain: config.domain ?? gateway.address,
      sshAddress: config.publicAddress,
      engine: config.engine,
    };
    const ports = config.nodePorts.last - config.nodePorts.first + 1;
    await firstRun.saveDefaultRegion(store, region, machine, ports, config.cpuOvercommit);
    const types = await firstRun.saveTypes(store, regionId, firstRun.fittedTypes(machine), randomUUID);
    const notebook = { key: 'notebook', ...hands.notebookImage };
    const imageId = await firstRun.offerImage(store, notebook, machine.architecture, now(), randomUUID());

    const running = makeControl({
      store,
      regions: makeRegions([hands.hands]),
      log,
      now,
      random: Math.random,
      randomUuid: randomUUID,
      randomBytes,
      gatewayOrigin: gatewayUrl,
      issuer: installation,
      audience: 'berth',
      engineWidth: hands.width,
      cpuOvercommit: config.cpuOvercommit,
      hostMemoryMiB: firstRun.HOST_MEMORY_MIB,
      onEngineAnswers: async (_, probe) => {
        await firstRun.saveTypes(store, regionId, firstRun.fittedTypes(firstRun.machineOf(probe)), randomUUID);
      },
      limits,
      alone: config.databaseUrl === null,
    });
    late.running = running;
    await running.access.ensureSigningKey();
    const adminPassword = await ensureAdmin(config, running);

    const api = makeApi({
      control: running.control,
      log,
      version: VERSION,
      gatewayOrigin: gatewayUrl,
      secureCookies: config.apiUrl?.startsWith('https:') ?? false,
      ownOrigins: config.apiUrl === null ? [] : [config.apiUrl],
    });
    await api.listen({ host: config.listen.host, port: config.listen.port });
    opened.push(() => api.close());
    await running.start();
    opened.push(() => running.stop());

    const preparing = new AbortController();
    const prepared = prepareImages(config, hands, running, log, preparing.signal, (offer) =>
      firstRun.offerImage(store, offer, machine.architecture, now(), randomUUID()),
    );
    opened.push(async () => {
      preparing.abort();
      await prepared;
    });

    const [address] = api.addresses();
    const port = typeof address === 'object' ? address.port : config.listen.port;
    return {
      apiUrl: config.apiUrl ?? `http://${hostPort({ host: config.listen.host, port })}`,
      gatewayUrl,
      adminPassword,
      example: { region: regionId, imageId, instanceTypeId: types[0]?.id ?? '' },
      store,
      running,
      hands,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The first account, once. Its generated password stays in a file of its owner alone, so that a lost terminal loses nothing. */
async function ensureAdmin(config: Config, running: RunningControl): Promise<Server['adminPassword']> {
  const file = join(config.dataFolder, PASSWORD_FILE);
  const kept = await readFile(file, 'utf8').catch(() => null);
  const text = config.adminPassword ?? kept?.trim() ?? randomBytes(12).toString('base64url');
  if (config.adminPassword === null && kept === null) {
    await writeFile(file, `${text}\n`, { mode: 0o600, flag: 'wx' });
    await chmod(file, 0o600);
  }
  const made = await running.access.ensureAdmin({ password: text, balance: ADMIN_BALANCE });
  return made && config.adminPassword === null ? { text, file } : null;
}

const TRY_AGAIN_MS = 15_000;
const PROGRESS_STEP_PERCENT = 10;

/** Image work that begins by itself: the default image is made, and public images are offered where their registry answers. */
async function prepareImages(
  config: Config,
  { hands, notebookImage }: Hands,
  { imageWork }: RunningControl,
  log: Logger,
  signal: AbortSignal,
  offer: (image: firstRun.OfferedImage) => Promise<unknown>,
): Promise<void> {
  const registry =
    config.registryImages && config.engine === 'docker' ? offerRegistryImages(offer, log, signal) : Promise.resolve();
  while (!signal.aborted) {
    let said = -PROGRESS_STEP_PERCENT;
    try {
      await imageWork.ensure(
        hands.engine,
        notebookImage.ref,
        ({ text, done, total }) => {
          const percent = total > 0 ? Math.floor((done / total) * 100) : 0;
          if (percent < said + PROGRESS_STEP_PERCENT) return;
          said = percent;
          log.info({ image: notebookImage.ref, percent }, `preparing the default image: ${text}`);
        },
        signal,
      );
      log.info({ image: notebookImage.ref }, 'the default image is ready');
      break;
    } catch (error) {
      if (signal.aborted) break;
      const again = `the default image could not be prepared; tried again in ${TRY_AGAIN_MS / 1000} s`;
      log.warn({ image: notebookImage.ref, reason: error instanceof Error ? error.message : String(error) }, again);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, TRY_AGAIN_MS);
        signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
      });
    }
  }
  await registry;
}
