/** Every migration, in order. A new one is a new file, added at the end. */
import type { Migration } from '../migrate.ts';
import { first } from './0001-first.ts';
import { endsAndOperations } from './0002-ends-and-operations.ts';

export const migrations: readonly Migration[] = [first, endsAndOperations];
