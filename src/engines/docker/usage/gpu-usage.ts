/** What the driver's own tool inside an instance is asked of its GPUs, and what it answers. Pure. */
import type { GpuUsage } from '../../contract.ts';

const asked = ['utilization.gpu', 'memory.used', 'memory.total', 'power.draw', 'temperature.gpu'] as const;

export const gpuQuestion = ['nvidia-smi', `--query-gpu=${asked.join(',')}`, '--format=csv,noheader,nounits'];

const MIB = 1024 * 1024;

/** A line for each GPU; null for what is no answer. A figure that one of them does not have stands in brackets. */
export function gpusFrom(text: string): GpuUsage[] | null {
  const gpus: GpuUsage[] = [];
  for (const line of text.trim().split('\n')) {
    const cells = line.split(',').map((cell) => cell.trim());
    if (cells.length !== asked.length) return null;
    const [busy, used, total, watts, celsius] = cells.map((cell) =>
      /^\[.*\]$/.test(cell) ? null : Number(cell || 'none'),
    );
    const of = (told: number | null | undefined, unit: number): number | null =>
      told === null || told === undefined ? null : Math.round(told * unit);
    const gpu = {
      busyPercent: of(busy, 1),
      memoryUsedBytes: of(used, MIB),
      memoryTotalBytes: of(total, MIB),
      powerMilliwatts: of(watts, 1_000),
      temperatureCelsius: of(celsius, 1),
    };
    if (Object.values(gpu).some((figure) => Number.isNaN(figure) || (figure ?? 0) < 0)) return null;
    if ((gpu.busyPercent ?? 0) > 100) return null;
    gpus.push(gpu);
  }
  return gpus;
}
