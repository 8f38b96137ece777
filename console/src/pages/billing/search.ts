/** View of the bill, as its address holds it: month, day and line that are open. */
import { monthPattern } from '../../../../src/contract/money/months.ts';
import { oneOf, textOf } from '../../parts/address.ts';

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

export const readBillingSearch = ({ tab, month, by, day, line, kind }: Record<string, unknown>): BillingSearch => ({
  tab: oneOf(tab, billingTabs.slice(1)),
  month: typeof month === 'string' && monthPattern.test(month) ? month : undefined,
  by: typeof by === 'string' && GROUP.test(by) ? by : undefined,
  day: typeof day === 'number' && Number.isInteger(day) && day >= 1 && day <= MOST_DAYS ? day : undefined,
  line: textOf(line),
  kind: textOf(kind),
});
