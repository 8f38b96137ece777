/** CPU time of processes, all threads, as counted by the kernel. Linux only. */
import { readFile } from 'node:fs/promises';

/** Unit of `/proc`: a hundredth of a second on every Linux. */
const US_PER_TICK = 10_000;
const PAGE_BYTES = 4096;

/** Sum of CPU microseconds of these processes since their start. */
export async function cpuUsOf(...pids: number[]): Promise<number> {
  let ticks = 0;
  for (const pid of pids) {
    const text = await readFile(`/proc/${pid}/stat`, 'latin1');
    // The name in brackets may contain spaces.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * US_PER_TICK;
}

export async function residentBytes(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/statm`, 'latin1');
  return Number(text.split(' ')[1]) * PAGE_BYTES;
}
