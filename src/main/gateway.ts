/** The gateway, in the process of the API or in one of its own: then it follows the API over a socket in the data folder, and serves on while that is away. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Forwarding, RouteUpdate } from '../control/index.ts';
import { makeTerminalHost } from '../control/inside/terminals/holder.ts';
import { realTime } from '../control/base/time.ts';
import { makeGateway, type GatewayDeps } from '../edge/gateway/gateway.ts';
import { followLink } from '../edge/link/follow.ts';
import { serveTerminals } from '../edge/link/serve-terminals.ts';
import { makeSshFronts, type SshFronts } from '../edge/ssh/fronts.ts';
import { addressesOf } from './addresses.ts';
import type { Config } from './config.ts';
import { makeEngine } from './drivers.ts';
import { connectionsOf, openFilesLimit, sshFiles } from './open-files.ts';
import { openTlsFiles } from './tls-files.ts';

/** Closed to all but Berth's own user: who can open it learns the notebooks' secrets. */
export const linkPath = ({ dataFolder }: Pick<Config, 'dataFolder'>): string => join(dataFolder, 'gateway.sock');

/** The same the other way: what terminals show, and what is typed there, goes over it. */
export const terminalsPath = ({ dataFolder }: Pick<Config, 'dataFolder'>): string => join(dataFolder, 'terminals.sock');

type Given = Pick<GatewayDeps, 'forwarding' | 'authenticate' | 'issuer' | 'apiOrigin' | 'portDomain' | 'log'>;

export interface OpenGateway {
  port: number;
  stop(): Promise<void>;
}

/** It listens once this is answered. Throws an Error that says which file of a certificate is wrong. */
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

/** Waits for the API to be there for the first time: without its word nobody is let in anywhere. */
export async function startGateway({ config, log }: { config: Config; log: Logger }): Promise<GatewayProcess> {
  const late: { dial: Forwarding['dial']; fronts: SshFronts | null } = {
    dial: () => Promise.reject(new Error('no engine yet')),
    fronts: null,
  };
  const before: RouteUpdate[] = [];
  const following = followLink({
    path: linkPath(config),
    dial: (id, port, signal) => late.dial(id, port, signal),
    onTold: (told) => (late.fronts === null ? void before.push(told) : late.fronts.told(told)),
    log,
  });
  log.info({ socket: linkPath(config) }, 'waits for the API, which is another process (BERTH_ROLE=api)');
  const { issuer } = await following.ready;
  // Its own way to the containers: a connection must not hang on the API.
  const engine = await makeEngine(config, issuer, log);
  late.dial = (id, port, signal) => engine.dial(id, port, signal);
  const { forwarding, authenticate } = following;
  const fronts = makeSshFronts({ drivers: engine, access: forwarding.ssh, log, files: await sshFiles() });
  late.fronts = fronts;
  for (const told of before) fronts.told(told);
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
