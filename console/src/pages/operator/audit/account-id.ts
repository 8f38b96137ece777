/** The account that a filter of the log names. Pure. */

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** By the whole name; an ID stays: the account of old records may be gone. Null: none. */
export const accountIdOf = (
  typed: string,
  accounts: readonly { accountId: string; username: string }[],
): string | null => accounts.find(({ username }) => username === typed)?.accountId ?? (UUID.test(typed) ? typed : null);
