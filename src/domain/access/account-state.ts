/** State of an account, as administrators see it. */
import { HOUR_MS } from '../kernel/durations.ts';
export const accountStates = ['active', 'disabled', 'deleting'] as const;
export type AccountState = (typeof accountStates)[number];

export const accountStateOf = (account: { disabled: 0 | 1; deleteAtMs: number | null }): AccountState => {
  if (account.deleteAtMs !== null) return 'deleting';
  return account.disabled === 1 ? 'disabled' : 'active';
};

/** Form of a username. */
export const usernamePattern = /^[a-z0-9][a-z0-9._-]{0,62}$/;

/** `reset` replaces a lost password; `invite` sets the first one of a new account. */
export const passwordLinkKinds = ['reset', 'invite'] as const;
export type PasswordLinkKind = (typeof passwordLinkKinds)[number];

export const passwordLinkLifeMs: Readonly<Record<PasswordLinkKind, number>> = {
  reset: 24 * HOUR_MS,
  invite: 7 * 24 * HOUR_MS,
};

/** Default dollars of accounts that administrators make. */
export const FIRST_CREDIT = 1_000;

export const DELETION_GRACE_DAYS = 7;
