import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { roles } from '../../../../../src/contract/statuses.ts';

/** As administrators see it. */
export type Account = AnswerOf<'getAccount'>['account'];

export const roleOf = (name: string): (typeof roles)[number] => roles.find((role) => role === name) ?? 'user';
