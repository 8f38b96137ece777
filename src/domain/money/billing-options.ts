/** Options for the end of paid time, of an off-peak window or of spot capacity. */
import type { InstanceSpec } from '../compute/instance.ts';
import { isHourly } from './meter.ts';

export type BillingOptions = Pick<InstanceSpec, 'autoRenew' | 'resume'>;

export type BillingOptionsRequest = { [Option in keyof BillingOptions]?: boolean | undefined };

export const billingOptionsOf = ({ autoRenew, resume }: BillingOptions): BillingOptions => ({ autoRenew, resume });

/** Begins with the name of the refused option; null: all fit the charge mode. */
export function faultOfBillingOptions({
  chargeMode,
  isSpot,
  autoRenew,
  resume,
}: Pick<InstanceSpec, 'chargeMode' | 'isSpot' | keyof BillingOptions>): string | null {
  if (autoRenew && isHourly(chargeMode))
    return `autoRenew" is true: it must be false for ${chargeMode}; only perDay, perWeek and perMonth are renewed`;
  if (resume && chargeMode !== 'tidePerHour' && !isSpot)
    return `resume" is true: it must be false for ${chargeMode}; only tidePerHour and spot instances resume`;
  return null;
}
