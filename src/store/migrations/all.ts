/** Every migration, in order. A new one is a new file, added at the end. */
import type { Migration } from '../migrate.ts';
import { first } from './0001-first.ts';
import { endsAndOperations } from './0002-ends-and-operations.ts';
import { poolsAndDisks } from './0003-pools-and-disks.ts';

export const migrations: readonly Migration[] = [first, endsAndOperations, poolsAndDisks];
