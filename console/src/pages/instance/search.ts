/** View of an instance, as its address holds it. */
import { oneOf, textOf } from '../../parts/address.ts';

export const tabs = ['overview', 'terminal', 'logs', 'figures', 'storage', 'ports', 'events', 'settings'] as const;
export type Tab = (typeof tabs)[number];
export const ranges = ['1h', '6h', '24h'] as const;
export type Range = (typeof ranges)[number];
export const shownLogs = ['console', 'init', 'start', 'notebook', 'events'] as const;
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
  /** Port of a program on loopback, which the page offers to open. */
  loopback?: number;
  /** Name of the terminal that is shown. */
  terminal?: string;
}

const TERMINAL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Reads the address; what is not understood, or is the default, is left out. */
export const readInstanceViewSearch = (given: Record<string, unknown>): InstanceViewSearch => ({
  tab: oneOf(given['tab'], tabs.slice(1)),
  open: given['open'] === true ? true : undefined,
  range: oneOf(given['range'], ranges.slice(1)),
  log: oneOf(given['log'], shownLogs.slice(1)),
  find: textOf(given['find']),
  loopback: portOf(given['loopback']),
  terminal: terminalOf(textOf(given['terminal'])),
});

const portOf = (port: unknown): number | undefined =>
  typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535 ? port : undefined;

const terminalOf = (name: string | undefined): string | undefined =>
  name !== undefined && TERMINAL.test(name) && name !== 'main' ? name : undefined;
