/** Order of quotas. Pure. */
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { shareOf } from '../../parts/share.ts';

export type Quota = AnswerOf<'listQuotas'>['quotas'][number];

/** Without a limit or a measure: last. */
const fullness = ({ limit, used }: Quota): number => (limit === null || used === null ? -1 : shareOf(used, limit));

/** The fullest first; the order of the API among equals. */
export const byFullness = (quotas: readonly Quota[]): Quota[] =>
  [...quotas].sort((one, other) => fullness(other) - fullness(one));
