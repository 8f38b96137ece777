/** Scopes of API keys: subjects that a key may change. `read` reads all subjects but `admin`. */
export const scopes = ['read', 'instances', 'volumes', 'billing', 'account', 'admin'] as const;
export type Scope = (typeof scopes)[number];

export type Subject = Exclude<Scope, 'read'>;

/** Scopes of which a credential needs one. */
export const scopesFor = ({ subject, reads }: { subject: Subject; reads: boolean }): Scope[] =>
  reads && subject !== 'admin' ? ['read', subject] : [subject];

/** Null: a login, or a key without limits. */
export const mayUse = (held: readonly Scope[] | null, route: { subject: Subject; reads: boolean }): boolean =>
  held === null || scopesFor(route).some((scope) => held.includes(scope));
