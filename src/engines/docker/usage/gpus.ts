/** GPUs of an instance: by readings of the host's cards, else by a command inside. */
import type { GpuUsage } from '../../contract.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { mayOpen, type CardNodes } from '../cards/card-nodes.ts';
import type { CardWatch } from '../cards/card-watch.ts';
import { unknownFigures } from '../cards/readings.ts';
import { isAmd } from '../client/amd-cards.ts';
import type { Host } from '../client/host-facts.ts';
import { runCommand } from '../exec/exec.ts';
import type { Run } from './readings.ts';

const GPU_DEADLINE_MS = 5_000;

interface GpuDeps {
  client: DockerClient;
  host: Host;
  cards: Pick<CardWatch, 'usageOf' | 'uuidOf' | 'isLost'>;
  cardNodes: Pick<CardNodes, 'of'>;
}

export type ReadGpus = (run: Run, signal: AbortSignal) => Promise<GpuUsage[] | null>;

export function makeReadGpus({ client, host, cards, cardNodes }: GpuDeps): ReadGpus {
  async function isTaken(id: string, pid: number, signal: AbortSignal): Promise<boolean> {
    if (cards.isLost(id)) return true;
    const { nsenter } = await host.facts(signal);
    const node = nsenter === null ? null : await cardNodes.of(cards.uuidOf(id) ?? '');
    return node !== null && (await mayOpen(pid, node)) === false;
  }

  async function readFigures({ info, gpuIds }: Run, signal: AbortSignal): Promise<GpuUsage[] | null> {
    const readHere = gpuIds.flatMap((id) => cards.usageOf(id) ?? []);
    if (readHere.length === gpuIds.length) return readHere;
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(GPU_DEADLINE_MS)]);
    const result = await runCommand({ client, info, command: gpuCommand, signal: deadline }).catch(() => null);
    const gpus = result?.exitCode === 0 ? parseGpus(result.stdout) : null;
    // A line for another number of GPUs tells not which is which.
    return gpus?.length === gpuIds.length ? gpus.map((gpu, nth) => ({ ...gpu, deviceId: gpuIds[nth] })) : gpus;
  }

  return async function readGpus(run: Run, signal: AbortSignal): Promise<GpuUsage[] | null> {
    const { pid, gpuIds } = run;
    if (gpuIds.length === 0 || gpuIds.some(isAmd)) return null;
    const taken = await Promise.all(gpuIds.map((id) => isTaken(id, pid, signal)));
    const gpus = await readFigures(run, signal);
    if (!taken.includes(true)) return gpus;
    const named = gpus?.length === gpuIds.length ? gpus : gpuIds.map((deviceId) => ({ deviceId, ...unknownFigures }));
    return named.map((gpu, nth) => (taken[nth] ? { ...gpu, isTaken: true } : gpu));
  };
}

const gpuFields = ['utilization.gpu', 'memory.used', 'memory.total', 'power.draw', 'temperature.gpu'] as const;

const gpuCommand = ['nvidia-smi', `--query-gpu=${gpuFields.join(',')}`, '--format=csv,noheader,nounits'];

const MIB = 1024 * 1024;

/** Expects a line per GPU, with missing figures in brackets. Null for any other output. */
function parseGpus(text: string): GpuUsage[] | null {
  const gpus: GpuUsage[] = [];
  for (const line of text.trim().split('\n')) {
    const cells = line.split(',').map((cell) => cell.trim());
    if (cells.length !== gpuFields.length) return null;
    const [busy, used, total, watts, celsius] = cells.map((cell) =>
      /^\[.*\]$/.test(cell) ? null : Number(cell || 'none'),
    );
    const scale = (figure: number | null | undefined, unit: number): number | null =>
      figure === null || figure === undefined ? null : Math.round(figure * unit);
    const gpu = {
      busyPercent: scale(busy, 1),
      memoryUsedBytes: scale(used, MIB),
      memoryTotalBytes: scale(total, MIB),
      powerMilliwatts: scale(watts, 1_000),
      temperatureCelsius: scale(celsius, 1),
    };
    if (Object.values(gpu).some((figure) => Number.isNaN(figure) || (figure ?? 0) < 0)) return null;
    if ((gpu.busyPercent ?? 0) > 100) return null;
    gpus.push(gpu);
  }
  return gpus;
}
