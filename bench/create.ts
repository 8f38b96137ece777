import type { Bench } from './bench.ts';
export const create: Bench = { title: 'create', run: async () => ({ table: [], verdicts: [], notes: [] }) };
