/** View of the list of instances, as its address holds it. */
import { instanceSorts, instanceStatuses, type InstanceStatus } from '../../../../src/contract/statuses.ts';
import { oneOf, textOf } from '../../parts/address.ts';

export type InstanceSortName = (typeof instanceSorts)[number];

export interface InstanceSearch {
  q?: string;
  status?: InstanceStatus;
  /** A label, as `key=value`. */
  label?: string;
  /** Left out: newest first. */
  sort?: InstanceSortName;
  desc?: boolean;
}

/** Reads the address; what is not understood is left out. */
export function readInstanceSearch({ q, status, label, sort, desc }: Record<string, unknown>): InstanceSearch {
  const by = oneOf(sort, instanceSorts);
  return {
    q: textOf(q),
    status: oneOf(status, instanceStatuses),
    label: typeof label === 'string' && label.indexOf('=') > 0 ? label : undefined,
    sort: by,
    desc: by !== undefined && desc === true ? true : undefined,
  };
}

/** Filters and order of the API. Terminated instances are shown where their status is asked for. */
export function filtersOf({ q, status, label, sort, desc }: InstanceSearch) {
  const at = label?.indexOf('=') ?? -1;
  return {
    ...(q === undefined ? {} : { name: q }),
    ...(status === undefined ? { withoutReleased: true } : { status: [status] }),
    ...(label === undefined || at < 1 ? {} : { labels: { [label.slice(0, at)]: label.slice(at + 1) } }),
    ...(sort === undefined ? {} : { sort: { by: sort, order: desc === true ? ('desc' as const) : ('asc' as const) } }),
  };
}
