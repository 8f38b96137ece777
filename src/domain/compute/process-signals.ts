export const processSignals = ['HUP', 'INT', 'QUIT', 'TERM', 'USR1', 'USR2', 'KILL'] as const;
export type ProcessSignal = (typeof processSignals)[number];
