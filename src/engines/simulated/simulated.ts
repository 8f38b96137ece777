/**
 * # The simulated engine
 *
 * Implements the engine contract in memory, on a real or virtual clock, with faults on demand. With
 * it Berth is an emulator for client authors and tests.
 *
 * Files: `*-verbs.ts` hold the verbs, `context.ts` shared state, locks and calls,
 * `injected-faults.ts` faults, `host.ts` containers and events, `container.ts` one container,
 * `script.ts` instructions, `networks.ts` and `services.ts` what listens inside, `images.ts`
 * images, `emulated-commands.ts`, `shell.ts` and `processes.ts` commands, `logs.ts` logs,
 * `journal.ts` persistence.
 *
 * Emulates states, root disks, node ports, images and pulls, ssh banners, HTTP on 8888, and the
 * console of `images/start.sh`. Runs no real commands, and enforces no limits.
 */
import { countGpus } from '../../domain/regions/catalog.ts';
import type { Capabilities, Engine, EngineSpec } from '../contract.ts';
import { copyOf } from './container.ts';
import { makeContext } from './context.ts';
import type { Faults } from './injected-faults.ts';
import type { EgressPolicies } from '../../domain/regions/egress.ts';
import { SimulatedHost, type HostOptions } from './host.ts';
import { imageVerbs } from './image-verbs.ts';
import { insideVerbs } from './inside-verbs.ts';
import { lifecycleVerbs } from './lifecycle-verbs.ts';
import { observationVerbs } from './observation-verbs.ts';

export interface SimulatedEngineOptions extends HostOptions {
  installation: string;
  architecture?: string;
  capabilities?: Partial<Capabilities>;
  dockerImageRef?: string;
  faults?: Faults;
  /** An existing host, stopped by its maker; other host options are then ignored. */
  host?: SimulatedHost;
}

export interface SimulatedEngine extends Engine {
  readonly host: SimulatedHost;
  /** Policies of the last `setEgress`. */
  egress(): EgressPolicies | null;
  /** Applies faults from now on; undefined: none. */
  misbehave(faults: Faults | undefined): void;
  /** Leaves the state of a crash between create and start. */
  leaveHalfMade(spec: EngineSpec): void;
}

export function makeSimulatedEngine(options: SimulatedEngineOptions): SimulatedEngine {
  const { installation, faults } = options;
  const host = options.host ?? new SimulatedHost(options);
  const capabilities: Capabilities = {
    rootDiskLimit: 'none',
    keepsRootDisk: true,
    dockerInside: true,
    saveImage: true,
    gpus: countGpus(host.capacity.gpus) > 0,
    dial: true,
    joinNetwork: true,
    listenUnix: true,
    processLimit: true,
    isolation: {
      kernelLimits: true,
      hostReserve: true,
      connectionLimit: true,
      linkLocalClosed: true,
      callFilter: true,
      securityModule: true,
      egressPolicy: true,
      userNamespaces: 'none',
      runtimes: ['runc'],
    },
    sizes: { processors: true, memory: true },
    ...options.capabilities,
  };
  let egress: EgressPolicies | null = null;
  const stopping = new AbortController();
  const context = makeContext({ installation, host, capabilities, faults, stopped: stopping.signal });

  return {
    host,
    dockerImageRef: options.dockerImageRef,
    misbehave: context.misbehave,
    egress: () => egress,
    // Simulated instances reach nothing, so every policy holds.
    async setEgress(policies) {
      egress = policies;
    },
    leaveHalfMade(spec) {
      host.create(installation, copyOf(spec));
    },
    ...observationVerbs(context, options.architecture ?? 'amd64'),
    ...lifecycleVerbs(context),
    ...imageVerbs(context),
    ...insideVerbs(context),
    async stop() {
      stopping.abort();
      if (options.host === undefined) await host.stop();
    },
  };
}
