import type { Bench } from './bench.ts';
export const launch: Bench = { title: 'launch', run: async () => ({ table: [], verdicts: [], notes: [] }) };
