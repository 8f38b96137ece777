import type { Bench } from './bench.ts';
export const gateway: Bench = { title: 'gateway', run: async () => ({ table: [], verdicts: [], notes: [] }) };
