/** `audit-head` of the data folder: position and hash of the last sealed audit record. */
import { join } from 'node:path';
import { z } from 'zod';
import type { AuditHeadFile } from '../control/access/audit/audit.ts';
import { readStored, writeAtomically } from './secret-files.ts';

const shape = z.object({ position: z.number().int().min(0), hash: z.string() });

export function auditHeadFile(dataFolder: string): AuditHeadFile {
  const file = join(dataFolder, 'audit-head');
  return {
    async read() {
      const stored = await readStored(file);
      if (stored === null) return null;
      try {
        return shape.parse(JSON.parse(stored.toString('utf8')));
      } catch (error) {
        throw new Error(`${file} is unreadable; remove it to begin a new one`, { cause: error });
      }
    },
    write: (head) => writeAtomically(file, `${JSON.stringify(head)}\n`),
  };
}
