/** Roles of accounts, each with the rights of those before it. */
export const roles = ['user', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

export const [USER_ROLE, , ADMIN_ROLE] = roles;

/** Whether one of the roles of an account is `needed` or above. Unknown names give no right. */
export const hasRole = (held: readonly string[], needed: Role): boolean =>
  roles.slice(roles.indexOf(needed)).some((role) => held.includes(role));

export const highestRole = (held: readonly string[]): Role =>
  roles.findLast((role) => held.includes(role)) ?? USER_ROLE;
