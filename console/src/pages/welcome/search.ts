/** Step of the first run, as its address holds it. */
import { oneOf } from '../../parts/address.ts';

export const steps = ['password', 'addresses', 'prices', 'instance'] as const;
export type Step = (typeof steps)[number];

export interface WelcomeSearch {
  /** Left out: the first. */
  step?: Step;
}

export const readWelcomeSearch = ({ step }: Record<string, unknown>): WelcomeSearch => ({ step: oneOf(step, steps) });
