/**
 * Starts the gateway: in the API's process, or as a process that follows the API over a socket in
 * the data folder.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Forwarding, RouteUpdate } from '../control/index.ts';
import { makeTerminalHost } from '../control/inside/terminals/local-host.ts';
import { realTime } from '../control/base/time.ts';
import { makeGateway, type GatewayDeps } from '../edge/gateway/gateway.ts';
import { followLink } from '../edge/link/follow.ts';
import { serveTerminals } from '../edge/link/terminal-server.ts';
import { makeSshFronts, type SshFronts } from '../edge/ssh/fronts.ts';
import { checkSsh2 } from '../edge/ssh/ssh2-inside.ts';
import { addressesOf } from './addresses.ts';
import type { Config } from './config.ts';
import { makeEngine } from './drivers.ts';
import { connectionsOf, openFilesLimit, sshFiles } from './open-files.ts';
import { openTlsFiles } from './tls-files.ts';

/** Socket of the API for the gateway process, mode 0600: it carries notebook tokens. */
export const linkPath = ({ dataFolder }: Pick<Config, 'dataFolder'>): string => join(dataFolder, 'gateway.sock');

/** Socket of the gateway process for the API, mode 0600: it carries terminal input and output. */
export const terminalsPath = ({ dataFolder }: Pick<Config, 'dataFolder'>): string => join(dataFolder, 'terminals.sock');

type Given = Pick<GatewayDeps, 'forwarding' | 'authenticate' | 'issuer' | 'apiOrigin' | 'portDomain' | 'log'>;

export interface OpenGateway {
  port: number;
  stop(): Promise<void>;
}

/** Resolves once the gateway listens. Throws an Error that names a bad certificate file. */
export async function openGateway(config: Config, given: Given): Promise<OpenGateway> {
  const tls = config.gatewayTls === null ? undefined : await openTlsFiles(config.gatewayTls, given.log);
  const openFiles = await openFilesLimit();
  const { connections } = config.gatewayLimits;
  const mostConnections = openFiles === null ? connections : Math.min(connections, connectionsOf(openFiles));
  const gateway = makeGateway({
    ...given,
    ...(config.gatewayUrl === null ? {} : { publicOrigin: config.gatewayUrl }),
    trustedProxies: config.trustedProxies,
    tls,
    limits: { ...config.gatewayLimits, connections: mostConnections },
  });
  await gateway.listen(config.gatewayListen.host, config.gatewayListen.port);
  const { address } = gateway;
  return {
    port: Number(address.slice(address.lastIndexOf(':') + 1)),
    async stop() {
      tls?.stop();
      await gateway.stop();
    },
  };
}

export interface GatewayProcess {
  gatewayUrl: string;
  stop(): Promise<void>;
}

/** Waits for the API once: without its routes the gateway can authorize nobody. */
export async function startGateway({ config, log }: { config: Config; log: Logger }): Promise<GatewayProcess> {
  const late: { dial: Forwarding['dial']; fronts: SshFronts | null } = {
    dial: () => Promise.reject(new Error('no engine yet')),
    fronts: null,
  };
  const before: RouteUpdate[] = [];
  const following = followLink({
    path: linkPath(config),
    dial: (id, port, signal) => late.dial(id, port, signal),
    onUpdate: (update) => (late.fronts === null ? void before.push(update) : late.fronts.update(update)),
    log,
  });
  log.info({ socket: linkPath(config) }, 'waiting for the API process (BERTH_ROLE=api)');
  const { issuer } = await following.ready;
  // Own connections to containers, independent of the API.
  const engine = await makeEngine(config, issuer, log);
  late.dial = (id, port, signal) => engine.dial(id, port, signal);
  const { forwarding, authenticate } = following;
  await checkSsh2();
  const fronts = makeSshFronts({ backend: engine, access: forwarding.ssh, log, files: await sshFiles() });
  late.fronts = fronts;
  for (const routeUpdate of before) fronts.update(routeUpdate);
  const ports = { api: config.listen.port, gateway: config.gatewayListen.port };
  const { portDomain } = addressesOf(config, ports);
  const gateway = await openGateway(config, {
    forwarding,
    authenticate,
    issuer,
    apiOrigin: () => addressesOf(config, ports).apiUrl,
    portDomain: () => portDomain,
    log,
  });
  ports.gateway = gateway.port;
  const terminals = makeTerminalHost({ engine, holder: randomUUID(), time: realTime, log });
  const served = await serveTerminals({ path: terminalsPath(config), terminals, log });
  return {
    gatewayUrl: addressesOf(config, ports).gatewayUrl,
    async stop() {
      await Promise.all([gateway.stop(), fronts.stop(), terminals.stop()]);
      await served.stop();
      await following.stop();
      await engine.stop();
    },
  };
}
