/** `key` opens instances; `ca` signs certificates that do. */
export const sshKeyKinds = ['key', 'ca'] as const;
export type SshKeyKind = (typeof sshKeyKinds)[number];

/** Names of which a certificate must have one. */
export const sshPrincipals = (username: string): string[] => [...new Set(['root', username])];
