import type { GpuUsage } from '../../contract.ts';

const fields = ['utilization.gpu', 'memory.used', 'memory.total', 'power.draw', 'temperature.gpu'] as const;

export const gpuCommand = ['nvidia-smi', `--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits'];

const MIB = 1024 * 1024;

/** Expects a line per GPU, with missing figures in brackets. Null for any other output. */
export function parseGpus(text: string): GpuUsage[] | null {
  const gpus: GpuUsage[] = [];
  for (const line of text.trim().split('\n')) {
    const cells = line.split(',').map((cell) => cell.trim());
    if (cells.length !== fields.length) return null;
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
