import type { ContainerInspectInfo } from 'dockerode';
import { makeBoundedMap } from '../../../async/bounded-map.ts';
import { z } from 'zod';
import type { NodePort } from '../../../domain/compute/instance.ts';
import { isInstanceId, type InstanceId } from '../../../domain/kernel/ids.ts';
import { labels } from '../../labels.ts';
import type { Observation } from '../../contract.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { linesOf } from '../../../docker/streams.ts';

type Labels = Record<string, string> | undefined | null;

/** Compares labels, never names: a foreign container may have our name. */
const isOf =
  (kind: 'instance' | 'docker') =>
  (found: Labels, installation: string, id?: InstanceId): boolean =>
    found?.[labels.installation] === installation &&
    found[labels.kind] === kind &&
    isInstanceId(found[labels.id] ?? '') &&
    (id === undefined || found[labels.id] === id);

export const isOurs = isOf('instance');
export const isDockerOf = isOf('docker');

/** 0 before the first run, for which the engine reports the year 1. */
export const startedAtMs = (state: ContainerInspectInfo['State']): number =>
  Math.max(0, Date.parse(state.StartedAt) || 0);

/** A paused container serves nobody and does not count as running; `ensure` unpauses it. */
export const isRunning = (state: ContainerInspectInfo['State']): boolean =>
  state.Running && !state.Paused && !state.Restarting;

/** Being removed, or left by an interrupted removal: the root disk is unreliable. */
export const isRemoving = (state: ContainerInspectInfo['State']): boolean => state.Dead || state.Status === 'removing';

export function observationOf(
  info: ContainerInspectInfo,
  outOfMemory: boolean,
  docker: 'running' | 'stopped' | undefined,
): Observation & { kind: 'present' } {
  const running = isRunning(info.State);
  const started = startedAtMs(info.State);
  return {
    kind: 'present',
    generation: generationOf(info.Config.Labels),
    running,
    // A failed start leaves an exit code though nothing ran.
    exitCode: info.State.Running || started === 0 ? null : info.State.ExitCode,
    outOfMemory,
    startedAtMs: started,
    nodePorts: nodePortsOf(info),
    ...(docker === undefined ? {} : { docker }),
  };
}

export function generationOf(found: Record<string, string>): number {
  const generation = Number(found[labels.generation]);
  return Number.isSafeInteger(generation) ? generation : 0;
}

export function nodePortsOf(info: ContainerInspectInfo): NodePort[] {
  const bindings: Record<string, { HostPort?: string }[] | null> = info.HostConfig.PortBindings ?? {};
  return Object.entries(bindings)
    .flatMap(([key, hosts]) =>
      (hosts ?? []).map(({ HostPort }) => ({ port: Number.parseInt(key, 10), nodePort: Number(HostPort) })),
    )
    .sort((a, b) => a.port - b.port || a.nodePort - b.nodePort);
}

export function samePorts(a: readonly NodePort[], b: readonly NodePort[]): boolean {
  const texts = (ports: readonly NodePort[]): string =>
    ports
      .map(({ port, nodePort }) => `${port}:${nodePort}`)
      .sort()
      .join();
  return texts(a) === texts(b);
}

export function addressOf(info: ContainerInspectInfo): string | null {
  const addresses = Object.values(info.NetworkSettings.Networks ?? {}).map(({ IPAddress }) => IPAddress);
  return addresses.find((address) => address !== '' && address !== undefined) ?? null;
}

const KILLED_EXIT_CODE = 128 + 9;
/** Maximum delay of the event after the exit. The query waits that long, once per killed run. */
const SETTLED_S = 0.25;
const MAX_VERDICTS = 1_000;

const oomEvent = z.object({ Action: z.literal('oom') });

/** Docker up to 23 sets `OOMKilled` only by chance; its event history (last 256) has the event. */
export function makeOutOfMemory(
  client: DockerClient,
): (info: ContainerInspectInfo, signal: AbortSignal) => Promise<boolean> {
  const verdicts = makeBoundedMap<{ startedAtMs: number; verdict: boolean }>({ maxEntries: MAX_VERDICTS });
  return async ({ Id, State }, signal) => {
    if (State.Running) return false;
    if (State.OOMKilled || State.ExitCode !== KILLED_EXIT_CODE) return State.OOMKilled;
    const started = startedAtMs(State);
    const cached = verdicts.get(Id);
    if (cached?.startedAtMs === started) return cached.verdict;
    const finishedS = Date.parse(State.FinishedAt) / 1000;
    const verdict = await client.call(signal, async (abortSignal) => {
      const filters = { type: ['container' as const], container: [Id], event: ['oom'] };
      const period = { since: Math.floor(started / 1000), until: finishedS + SETTLED_S };
      const stream = await client.docker.getEvents({ ...period, filters, abortSignal });
      for await (const line of linesOf(stream)) if (oomEvent.safeParse(JSON.parse(line)).success) return true;
      return false;
    });
    verdicts.set(Id, { startedAtMs: started, verdict });
    return verdict;
  };
}
