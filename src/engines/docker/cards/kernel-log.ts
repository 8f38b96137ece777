/** Follows the Xids of the kernel's log. */
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Xid } from '../../../domain/regions/card-health.ts';
import { errorCode } from '../../../domain/kernel/unknown-error.ts';
import { placeOf } from '../client/cards.ts';

const KERNEL_LOG = '/dev/kmsg';
const POLL_MS = 5_000;
const RECORD_BYTES = 8_192;
const RECORD = /^(\d+),\d+,(\d+),[^;]*;NVRM: Xid \(PCI:([0-9a-f:.]+)\): (\d+)\b/i;
/** Records of programs have a facility above. */
const KERNEL_LEVELS = 8;

export interface PlacedXid extends Xid {
  place: string;
}

export function parseXid(record: string): PlacedXid | null {
  const [, priority, at = '', busId = '', code] = RECORD.exec(record) ?? [];
  const place = placeOf(busId);
  return place === null || Number(priority) >= KERNEL_LEVELS ? null : { place, code: Number(code), at };
}

/** Does nothing where the log cannot be read. */
export async function followKernelLog(
  onXid: (xid: PlacedXid) => void,
  signal: AbortSignal,
  { path = KERNEL_LOG, pollMs = POLL_MS } = {},
): Promise<void> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => null);
  if (file === null) return;
  const take = (line: string): void => {
    const xid = parseXid(line);
    if (xid !== null) onXid(xid);
  };
  try {
    let isReadable = await readRecords(file, () => {});
    while (isReadable) {
      await sleep(pollMs, undefined, { signal });
      isReadable = await readRecords(file, take);
    }
  } catch {
    // The end of the watch.
  } finally {
    await file.close();
  }
}

/** False: the log is unreadable. */
async function readRecords(file: FileHandle, take: (line: string) => void): Promise<boolean> {
  const buffer = Buffer.alloc(RECORD_BYTES);
  for (;;) {
    try {
      const { bytesRead } = await file.read(buffer, 0, RECORD_BYTES, null);
      if (bytesRead === 0) return true;
      for (const line of buffer.toString('utf8', 0, bytesRead).split('\n')) take(line);
    } catch (error) {
      if (errorCode(error) === 'EAGAIN') return true;
      // Records were overwritten before they were read.
      if (errorCode(error) !== 'EPIPE') return false;
    }
  }
}
