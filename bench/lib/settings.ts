/** How a server of a bench is made: told to `processes/server.ts`, and to what seeds a data folder before. */
import { pino } from 'pino';
import { z } from 'zod';
import { readConfig, type Config } from '../../src/main/config.ts';

export const DOMAIN = '127.0.0.1:8081';
export const PASSWORD = 'a password of the benches';

export const serverSettings = z.object({
  dataFolder: z.string(),
  engine: z.enum(['simulated', 'docker']),
  /** `api`: without a gateway, which follows it in a process of its own. */
  role: z.enum(['all', 'api']),
  /** `off`: launches are accepted and stay queued. */
  loop: z.enum(['on', 'off']),
  /**
   * What a list finds of its owner's version. `kept`: what it was. `moved`: another one each time, so that each page is read and joined
   * anew. `written`: as `moved`, and by a real change before each list, durable like any other.
   */
  version: z.enum(['kept', 'moved', 'written']),
  nodePorts: z.object({ first: z.number(), last: z.number() }),
  /** Offers a type so small that hundreds fit on this machine, as the example to launch. */
  smallType: z.boolean(),
  /** Dialling any port of any instance but 22 reaches this port of the host; null: the engine's own way. */
  dialTo: z.number().nullable(),
  /** Of the gateway; 0: any. It stands in the text of each instance, which a server at another one writes anew as it starts. */
  gatewayPort: z.number(),
});
export type ServerSettings = z.infer<typeof serverSettings>;

/** More ports than a host has: the simulated engine publishes none, and the launches of a bench must not run out. */
const PORTS_WITHOUT_END = { first: 1, last: 1_000_000_000 };

export const simulated = (dataFolder: string, more: Partial<ServerSettings> = {}): ServerSettings => ({
  dataFolder,
  engine: 'simulated',
  role: 'all',
  loop: 'on',
  version: 'kept',
  nodePorts: PORTS_WITHOUT_END,
  smallType: false,
  dialTo: null,
  gatewayPort: 0,
  ...more,
});

export const configOf = ({ dataFolder, engine, role, nodePorts, dialTo, gatewayPort }: ServerSettings): Config => ({
  ...readConfig({
    BERTH_DATA: dataFolder,
    BERTH_LISTEN: '127.0.0.1:0',
    BERTH_GATEWAY_LISTEN: `127.0.0.1:${gatewayPort}`,
    BERTH_ENGINE: engine,
    BERTH_ADMIN_PASSWORD: PASSWORD,
    BERTH_CPU_OVERCOMMIT: '50',
    BERTH_REGISTRY_IMAGES: 'off',
    ...(engine === 'docker' ? { BERTH_POOL: 'overcommit=1000' } : {}),
    BERTH_LOG: 'error',
  }),
  nodePorts,
  // Not by its variable: a gateway in a process of its own can't reach the simulated engine, and the benches' is told where to go instead.
  role,
  // Said, and not left to the port that happens to be free: a region's domain stands in the text of each of its instances.
  domain: dialTo === null ? { name: DOMAIN, isWildcard: false } : null,
});

export const quietLog = pino({ level: 'error' }, pino.destination(2));
