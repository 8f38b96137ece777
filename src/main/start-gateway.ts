/** Starts the gateway in the API's process, or as one that follows it over a link. */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { makeLoopbackDial, type Forwarding } from '../control/index.ts';
import { makeTerminalHost } from '../control/compute/inside/terminals/local-host.ts';
import { realTime } from '../control/kernel/time.ts';
import { makeGateway, type Gateway } from '../edge/gateway/gateway.ts';
import type { GatewayDeps } from '../edge/gateway/gateway-deps.ts';
import type { Engine } from '../engines/contract.ts';
import { followLink } from '../edge/link/follow-control.ts';
import { serveTerminals } from '../edge/link/terminal-server.ts';
import { makeSshFronts } from '../edge/ssh/fronts.ts';
import { checkSsh2 } from '../edge/ssh/ssh2-inside.ts';
import { openTlsFiles } from '../edge/tls-files.ts';
import { addressesOf } from './public-addresses.ts';
import { bindPort } from './bind-port.ts';
import type { Config } from './config.ts';
import { makeEngine, toolsFolderOf } from './drivers.ts';
import { makeGatewayEngines } from './gateway-engines.ts';
import { openEngine, openOwnCluster } from './open-region.ts';
import { linkAddresses } from './link-addresses.ts';
import { readFileShares } from './open-files.ts';

type AttachDeps = Pick<
  GatewayDeps,
  'forwarding' | 'notebookBar' | 'authenticate' | 'wake' | 'issuer' | 'apiUrl' | 'log'
>;

export interface BoundGateway {
  port: number;
  /** Builds the gateway on the bound port. Before, clients get a 503. */
  attach(deps: AttachDeps): Promise<void>;
  stop(): Promise<void>;
}

/** Throws an Error that names a bad certificate file. */
export async function bindGateway(config: Config, log: Logger): Promise<BoundGateway> {
  const tls = config.gatewayTls === null ? undefined : await openTlsFiles(config.gatewayTls, log);
  const { gatewayConnections } = await readFileShares(config.role);
  const connections = Math.min(config.gatewayLimits.connections, gatewayConnections);
  const bound = await bindPort(config.gatewayListen, { isTls: tls !== undefined });
  const { portDomain } = addressesOf(config, { api: config.listen.port, gateway: bound.port });
  let gateway: Gateway | null = null;
  return {
    port: bound.port,
    async attach(deps) {
      const built = makeGateway({
        ...deps,
        ...(config.gatewayUrl === null ? {} : { publicOrigin: config.gatewayUrl }),
        portDomain,
        trustedProxies: config.trustedProxies,
        tls,
        toolsFolder: toolsFolderOf(config),
        limits: { ...config.gatewayLimits, connections },
      });
      await built.listenOn(bound.server);
      gateway = built;
    },
    async stop() {
      tls?.stop();
      if (gateway) await gateway.stop();
      else bound.close();
    },
  };
}

async function openOwnEngine(config: Config, installation: string, log: Logger): Promise<Engine> {
  if (config.regionFile === null) return makeEngine(config, installation, log);
  return (await openOwnCluster({ config, installation, log }, config.regionFile)).engine;
}

export interface GatewayProcessOptions {
  config: Config;
  log: Logger;
  /** Opens the engine of the settings. */
  openOwnBy?: typeof openOwnEngine;
  /** Opens engines of regions of administrators. */
  openRegionBy?: typeof openEngine;
}

export interface GatewayProcess {
  gatewayUrl: string;
  stop(): Promise<void>;
}

/** Waits for the API once: without its routes the gateway can authorize nobody. */
export async function startGateway({
  config,
  log,
  openOwnBy = openOwnEngine,
  openRegionBy = openEngine,
}: GatewayProcessOptions): Promise<GatewayProcess> {
  const link = await linkAddresses(config);
  const following = followLink({ address: link.api, log });
  log.info({ api: config.link?.peer ?? link.api }, 'waiting for the API process (BERTH_ROLE=api)');
  const { issuer, ownRegionId } = await following.ready;
  // Own connections to instances, independent of the API.
  const engine = makeGatewayEngines({
    own: { regionId: ownRegionId, engine: await openOwnBy(config, issuer, log) },
    openEngine: (region) => openRegionBy({ config, installation: issuer, log }, region),
    regionOf: async (id) => (await following.forwarding.route(id))?.regionId ?? null,
    log,
  });
  following.subscribeRegions(engine.apply);
  const { authenticate, notebookBar, wake } = following;
  const forwarding: Forwarding = {
    ...following.forwarding,
    dial: (id, port, signal) => engine.dial(id, port, signal),
    dialLoopback: makeLoopbackDial(engine),
  };
  await checkSsh2();
  const { sshFiles: files } = await readFileShares(config.role);
  const fronts = makeSshFronts({
    backend: engine,
    access: forwarding.ssh,
    recordLogin: forwarding.recordSshLogin,
    log,
    files,
  });
  following.subscribe(fronts.update);
  const gateway = await bindGateway(config, log);
  const { apiUrl, gatewayUrl } = addressesOf(config, { api: config.listen.port, gateway: gateway.port });
  await gateway.attach({ forwarding, notebookBar, authenticate, wake, issuer, apiUrl, log });
  const terminals = makeTerminalHost({ engine, holder: randomUUID(), time: realTime, log });
  const served = await serveTerminals({ address: link.gateway, terminals, log });
  return {
    gatewayUrl,
    async stop() {
      await Promise.all([gateway.stop(), fronts.stop(), terminals.stop()]);
      await served.stop();
      await following.stop();
      await engine.stop();
    },
  };
}
