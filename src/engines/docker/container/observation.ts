/** What an inspect says, in the contract's words, and whose container it is. Pure. */
import type { ContainerInspectInfo } from 'dockerode';
import type { NodePort } from '../../../domain/instance.ts';
import { isInstanceId, type InstanceId } from '../../../domain/ids.ts';
import { labels } from '../../labels.ts';
import type { Observation } from '../../contract.ts';

/** A container of ours that has our name but not our label is a stranger's, and never touched. */
export const isOurs = (
  found: Record<string, string> | undefined | null,
  installation: string,
  id?: InstanceId,
): boolean => isOf('instance', found, installation, id);

/** The same of the container of its Docker. */
export const isDockerOf = (
  found: Record<string, string> | undefined | null,
  installation: string,
  id?: InstanceId,
): boolean => isOf('docker', found, installation, id);

const isOf = (
  kind: string,
  found: Record<string, string> | undefined | null,
  installation: string,
  id?: InstanceId,
): boolean =>
  found?.[labels.installation] === installation &&
  found[labels.kind] === kind &&
  isInstanceId(found[labels.id] ?? '') &&
  (id === undefined || found[labels.id] === id);

/** 0 when it never ran: the engine then says the year 1. */
export const startedAtMs = (state: ContainerInspectInfo['State']): number =>
  Math.max(0, Date.parse(state.StartedAt) || 0);

/** A paused container serves nobody, so it does not count as running; `ensure` wakes it. */
export const isRunning = (state: ContainerInspectInfo['State']): boolean =>
  state.Running && !state.Paused && !state.Restarting;

/** On its way out, or what an interrupted removal left: there is no root disk in it to rely on. */
export const isGoing = (state: ContainerInspectInfo['State']): boolean => state.Dead || state.Status === 'removing';

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
    // A start that failed leaves an exit code behind, though nothing ran.
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

/** Null for one that was made before the label was, and is listed by what the engine says instead. */
export const imageRefOf = (found: Record<string, string>): string | null => found[labels.imageRef] ?? null;

/** As the container was made: Docker publishes these while it runs, and can't change them. */
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

/** Its address on its account's network; null while it has none. */
export function addressOf(info: ContainerInspectInfo): string | null {
  const addresses = Object.values(info.NetworkSettings.Networks ?? {}).map(({ IPAddress }) => IPAddress);
  return addresses.find((address) => address !== '' && address !== undefined) ?? null;
}
