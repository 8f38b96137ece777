import { toDollars, type Micros } from '../regions/catalog.ts';
import { Refusal } from '../kernel/refusal.ts';

export interface Shortfall {
  needMicros: Micros;
  availableMicros: Micros;
}

const text = (micros: Micros): string => `$${toDollars(micros)}`;

/** `purpose` follows the needed amount; `instead` ends the sentence about what would work. */
export const noBalance = (
  { needMicros, availableMicros }: Shortfall,
  { what, purpose, instead }: { what: string; purpose: string; instead?: string },
): Refusal =>
  new Refusal(
    'no_balance',
    `the ${what} needs ${text(needMicros)}${purpose} and ${text(availableMicros)} is available; ${text(needMicros - availableMicros)} is missing: top up the account${instead === undefined ? '' : `, or ${instead}`}`,
  );
