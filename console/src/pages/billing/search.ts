/** View of the bill, as its address holds it: month, day and line that are open. */
import { monthPattern } from '../../../../src/contract/months.ts';

export const billingTabs = ['use', 'budgets', 'credits', 'entries'] as const;
export type BillingTab = (typeof billingTabs)[number];

export interface BillingSearch {
  tab?: BillingTab;
  /** Left out: the current one. */
  month?: string;
  /** What a line sums: `resource` if left out, `meter`, `type` or `label:KEY`. */
  by?: string;
  /** Number of the day in the month. */
  day?: number;
  /** Key of the open line (`month.ts`). */
  line?: string;
  /** Only entries of this kind. */
  kind?: string;
}

const GROUP = /^(?:meter|type|label:.+)$/;
const MOST_DAYS = 31;

export function readBillingSearch({ tab, month, by, day, line, kind }: Record<string, unknown>): BillingSearch {
  const known = billingTabs.find((one) => one === tab && one !== 'use');
  return {
    ...(known === undefined ? {} : { tab: known }),
    ...(typeof month === 'string' && monthPattern.test(month) ? { month } : {}),
    ...(typeof by === 'string' && GROUP.test(by) ? { by } : {}),
    ...(typeof day === 'number' && Number.isInteger(day) && day >= 1 && day <= MOST_DAYS ? { day } : {}),
    ...(typeof line === 'string' && line !== '' ? { line } : {}),
    ...(typeof kind === 'string' && kind !== '' ? { kind } : {}),
  };
}
