/** What a process spends, whatever program it is: the kernel's own count, of all its threads. Linux alone has it in this form. */
import { readFile } from 'node:fs/promises';

/** Of `/proc`: what it counts processor time in is a hundredth of a second on every Linux there is. */
const US_PER_TICK = 10_000;
const PAGE_BYTES = 4096;

/** Microseconds of processor time since it began, of these processes together. */
export async function cpuUsOf(...pids: number[]): Promise<number> {
  let ticks = 0;
  for (const pid of pids) {
    const text = await readFile(`/proc/${pid}/stat`, 'latin1');
    // The name in brackets may hold anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * US_PER_TICK;
}

export async function residentBytes(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/statm`, 'latin1');
  return Number(text.split(' ')[1]) * PAGE_BYTES;
}
