/** View of an instance, as its address holds it. */
export const tabs = ['overview', 'terminal', 'logs', 'figures', 'storage', 'ports', 'events', 'settings'] as const;
export type Tab = (typeof tabs)[number];
export const ranges = ['1h', '6h', '24h'] as const;
export type Range = (typeof ranges)[number];
export const shownLogs = ['console', 'init', 'start', 'events'] as const;
export type ShownLog = (typeof shownLogs)[number];

export interface InstanceViewSearch {
  tab?: Tab;
  /** Opens the notebook when it is ready. */
  open?: boolean;
  /** Time that the figures show. */
  range?: Range;
  log?: ShownLog;
  /** Only lines of the log with this text. */
  find?: string;
  /** Name of the terminal that is shown. */
  terminal?: string;
}

const TERMINAL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Reads the address; what is not understood, or is the default, is left out. */
export function readInstanceViewSearch(raw: Record<string, unknown>): InstanceViewSearch {
  const { open, find, terminal } = raw;
  const tab = tabs.find((one) => one === raw['tab']);
  const range = ranges.find((one) => one === raw['range']);
  const log = shownLogs.find((one) => one === raw['log']);
  return {
    ...(tab === undefined || tab === 'overview' ? {} : { tab }),
    ...(open === true ? { open } : {}),
    ...(range === undefined || range === '1h' ? {} : { range }),
    ...(log === undefined || log === 'console' ? {} : { log }),
    ...(typeof find === 'string' && find !== '' ? { find } : {}),
    ...(typeof terminal === 'string' && TERMINAL.test(terminal) && terminal !== 'main' ? { terminal } : {}),
  };
}
