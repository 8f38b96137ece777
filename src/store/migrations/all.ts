/** Every migration, in order. A new one is a new file, added at the end. */
import type { Migration } from '../db/migrate.ts';
import { first } from './0001-first.ts';
import { endsAndOperations } from './0002-ends-and-operations.ts';
import { poolsAndDisks } from './0003-pools-and-disks.ts';
import { portAccess } from './0004-port-access.ts';
import { metrics } from './0005-metrics.ts';

export const migrations: readonly Migration[] = [first, endsAndOperations, poolsAndDisks, portAccess, metrics];
