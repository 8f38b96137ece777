/** Settings of a bench server, for `processes/server.ts` and for seeding. */
import { pino } from 'pino';
import { z } from 'zod';
import type { QuotaKind } from '../../src/domain/access/quota.ts';
import { readConfig, type Config } from '../../src/main/config.ts';

export const DOMAIN = '127.0.0.1:8081';
export const PASSWORD = 'a password of the benches';

export const serverSettings = z.object({
  dataFolder: z.string(),
  engine: z.enum(['simulated', 'docker']),
  /** Address of the container engine in the form of `DOCKER_HOST`; null: this machine's. */
  dockerHost: z.string().nullable(),
  /** `api`: the gateway is a separate process. */
  role: z.enum(['all', 'api']),
  /** `off`: launches are accepted and stay queued. */
  loop: z.enum(['on', 'off']),
  /**
   * Version that a list finds. `kept`: unchanged. `moved`: changed each time, so that pages are
   * rebuilt. `written`: changed by a durable write before each list.
   */
  version: z.enum(['kept', 'moved', 'written']),
  nodePorts: z.object({ first: z.number(), last: z.number() }),
  /** Adds a type small enough for hundreds of instances. */
  smallType: z.boolean(),
  /** Local port for connections to any instance port but 22; null: the engine's. */
  dialTo: z.number().nullable(),
  /**
   * Gateway port; 0: any. Part of each instance's text: a server with another port rewrites them at
   * start.
   */
  gatewayPort: z.number(),
  /** `default`: rates and quotas as of an installation without settings. */
  limits: z.enum(['raised', 'default']),
});
export type ServerSettings = z.infer<typeof serverSettings>;

/** Unlimited: the simulated engine publishes no port. */
const PORTS_WITHOUT_END = { first: 1, last: 1_000_000_000 };

export const simulated = (dataFolder: string, more: Partial<ServerSettings> = {}): ServerSettings => ({
  dataFolder,
  engine: 'simulated',
  dockerHost: null,
  role: 'all',
  loop: 'on',
  version: 'kept',
  nodePorts: PORTS_WITHOUT_END,
  smallType: false,
  dialTo: null,
  gatewayPort: 0,
  limits: 'raised',
  ...more,
});

/** The load of a bench has one address, as behind a proxy. */
const raisedRates = { BERTH_REQUESTS_PER_SECOND: '1000000', BERTH_TRUSTED_PROXIES: '127.0.0.1' };

export const configOf = ({
  dataFolder,
  engine,
  dockerHost,
  role,
  nodePorts,
  dialTo,
  gatewayPort,
  limits,
}: ServerSettings): Config => ({
  ...readConfig({
    BERTH_DATA: dataFolder,
    BERTH_LISTEN: '127.0.0.1:0',
    BERTH_GATEWAY_LISTEN: `127.0.0.1:${gatewayPort}`,
    BERTH_ENGINE: engine,
    BERTH_ADMIN_PASSWORD: PASSWORD,
    BERTH_CPU_OVERCOMMIT: '50',
    BERTH_REGISTRY_IMAGES: 'off',
    ...(limits === 'raised' ? raisedRates : {}),
    ...(limits === 'default' ? { BERTH_POOL: 'engine=directory,overcommit=100' } : {}),
    ...(engine === 'docker' ? { BERTH_POOL: 'overcommit=1000' } : {}),
    ...(dockerHost === null ? {} : { DOCKER_HOST: dockerHost }),
    BERTH_LOG: 'error',
  }),
  nodePorts,
  // Not from the environment: a separate gateway can't reach the simulated engine.
  role,
  // Fixed: the domain is part of each instance's text.
  domain: dialTo === null ? { name: DOMAIN, isWildcard: false } : null,
});

/** Quotas that the bench server raises: one account launches more than the built-in limits. */
export const raisedQuotas = [
  'instances',
  'cpus',
  'memoryGB',
  'diskGB',
  'nodePorts',
  'operations',
] as const satisfies readonly QuotaKind[];

export const quietLog = pino({ level: 'error' }, pino.destination(2));
