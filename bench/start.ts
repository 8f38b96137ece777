import type { Bench } from './bench.ts';
export const start: Bench = { title: 'start', run: async () => ({ table: [], verdicts: [], notes: [] }) };
