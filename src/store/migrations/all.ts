/** Every migration, in order. A new one is a new file, added at the end. */
import type { Migration } from '../db/migrate.ts';
import { initial } from './0001-initial.ts';

export const migrations: readonly Migration[] = [initial];
