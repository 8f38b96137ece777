/**
 * Engines of the gateway process: the one of the settings, and those of regions that the API names
 * over the link. While the API is away, all stay open.
 */
import { isDeepStrictEqual } from 'node:util';
import type { RegionToOpen, SshBackend } from '../control/index.ts';
import type { Log } from '../control/kernel/logger.ts';
import { EngineFault } from '../domain/regions/engine-fault.ts';
import { errorText } from '../domain/kernel/unknown-error.ts';
import type { Engine } from '../engines/contract.ts';

/** Verbs of an engine that the gateway process calls. */
type GatewayEngine = Pick<Engine, 'dial' | 'stop'> & SshBackend;

export interface GatewayEnginesDeps {
  own: { regionId: string; engine: GatewayEngine };
  /** Makes an engine without a call to it. Throws an Error that says what is wrong. */
  openEngine: (region: RegionToOpen) => Promise<GatewayEngine>;
  /** Null for an instance that has no route. */
  regionOf: (instanceId: string) => Promise<string | null>;
  log: Pick<Log, 'info' | 'error'>;
}

export interface GatewayEngines extends GatewayEngine {
  /** Opens what is new or has changed. A region that is not named stays open. */
  apply(regions: readonly RegionToOpen[]): void;
}

interface Opened {
  region: RegionToOpen;
  /** Null: it could not be opened. */
  engine: Promise<GatewayEngine | null>;
}

export function makeGatewayEngines({ own, openEngine, regionOf, log }: GatewayEnginesDeps): GatewayEngines {
  const opened = new Map<string, Opened>();

  /** Returns the engine that serves from now on: the old one, if no new one can be opened. */
  async function replace(region: RegionToOpen, before: Opened | undefined): Promise<GatewayEngine | null> {
    const old = (await before?.engine) ?? null;
    try {
      const engine = await openEngine(region);
      log.info({ region: region.id }, 'the gateway opened a region');
      await old?.stop();
      return engine;
    } catch (error) {
      // The message alone: causes may quote the credentials of the region.
      log.error({ region: region.id, reason: errorText(error) }, 'the gateway cannot open a region');
      return old;
    }
  }

  async function engineOf(id: string): Promise<GatewayEngine> {
    const regionId = await regionOf(id);
    if (regionId === null) throw new EngineFault('not_found', `instance ${id} is not running`, { retry: false });
    const engine = regionId === own.regionId ? own.engine : await opened.get(regionId)?.engine;
    if (!engine)
      throw new EngineFault('unreachable', `the gateway process cannot open region ${regionId}; its log says why`, {
        retry: true,
      });
    return engine;
  }

  return {
    apply(regions) {
      for (const region of regions) {
        const before = opened.get(region.id);
        if (before && isDeepStrictEqual(before.region, region)) continue;
        opened.set(region.id, { region, engine: replace(region, before) });
      }
    },
    dial: async (id, port, signal) => (await engineOf(id)).dial(id, port, signal),
    openExec: async (id, request, signal) => (await engineOf(id)).openExec(id, request, signal),
    exec: async (id, command, signal) => (await engineOf(id)).exec(id, command, signal),
    joinNetwork: async (id, signal) => (await engineOf(id)).joinNetwork(id, signal),
    listenUnix: async (id, onConnection, signal) => (await engineOf(id)).listenUnix(id, onConnection, signal),
    async stop() {
      const others = await Promise.all([...opened.values()].map(({ engine }) => engine));
      const open = others.filter((engine) => engine !== null);
      await Promise.all([own.engine, ...open].map((engine) => engine.stop()));
    },
  };
}
