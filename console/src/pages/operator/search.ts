/** Views of the operators' pages, as their addresses hold them. */
import {
  accountStates,
  instanceStatuses,
  roles,
  type AccountState,
  type InstanceStatus,
} from '../../../../src/contract/statuses.ts';
import { oneOf, textOf } from '../../parts/address.ts';

type Given = Record<string, unknown>;
type Role = (typeof roles)[number];

const timeOf = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/** Leaves out what is not set, so that an address has no empty members. */
const present = <Search extends object>(search: Search): Search => {
  for (const [key, value] of Object.entries(search)) if (value === undefined) Reflect.deleteProperty(search, key);
  return search;
};

export const fleetTabs = ['hosts', 'use', 'instances', 'disks'] as const;
export const historyRanges = ['day', 'weeks', 'quarter'] as const;
export interface FleetSearch {
  tab?: (typeof fleetTabs)[number];
  q?: string;
  status?: InstanceStatus;
  /** Time of the charts of use. */
  range?: (typeof historyRanges)[number];
  /** Open GPU: region, slash, card. */
  card?: string;
}
export const readFleetSearch = ({ tab, q, status, range, card }: Given): FleetSearch =>
  present({
    tab: oneOf(tab, fleetTabs.slice(1)),
    q: textOf(q),
    status: oneOf(status, instanceStatuses),
    range: oneOf(range, historyRanges.slice(1)),
    card: textOf(card),
  });

export interface AccountsSearch {
  q?: string;
  role?: Role;
  state?: AccountState;
  /** Accounts by what they wrote on disks. */
  by?: 'disk';
}
export const readAccountsSearch = ({ q, role, state, by }: Given): AccountsSearch =>
  present({
    q: textOf(q),
    role: oneOf(role, roles),
    state: oneOf(state, accountStates),
    by: oneOf(by, ['disk']),
  });

export const accountTabs = ['resources', 'money', 'limits'] as const;
export interface AccountSearch {
  tab?: (typeof accountTabs)[number];
}
export const readAccountSearch = ({ tab }: Given): AccountSearch => present({ tab: oneOf(tab, accountTabs.slice(1)) });

export const catalogTabs = ['types', 'images', 'regions', 'prices', 'installation'] as const;
export interface CatalogSearch {
  tab?: (typeof catalogTabs)[number];
  q?: string;
  /** Retired ones are listed, too. */
  retired?: true;
  /** History of one instance type. */
  type?: string;
}
export const readCatalogSearch = ({ tab, q, retired, type }: Given): CatalogSearch =>
  present({
    tab: oneOf(tab, catalogTabs.slice(1)),
    q: textOf(q),
    ...(retired === true ? { retired } : {}),
    type: textOf(type),
  });

export interface AuditSearch {
  account?: string;
  route?: string;
  subject?: string;
  outcome?: string;
  from?: number;
  to?: number;
  /** Whether requests that only read are shown as well. */
  reads?: true;
  /** Position of the open record. */
  open?: number;
}
export const readAuditSearch = ({ account, route, subject, outcome, from, to, reads, open }: Given): AuditSearch =>
  present({
    account: textOf(account),
    route: textOf(route),
    subject: textOf(subject),
    outcome: textOf(outcome),
    from: timeOf(from),
    to: timeOf(to),
    reads: reads === true ? reads : undefined,
    open: timeOf(open),
  });

export interface HealthSearch {
  /** Whether the page checks the proxies. */
  check?: true | undefined;
}

export const readHealthSearch = ({ check }: Record<string, unknown>): HealthSearch => ({
  check: check === true || undefined,
});
