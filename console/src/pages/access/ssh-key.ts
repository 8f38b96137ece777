/** The comment of a public key names it: `ssh-ed25519 AAAA… mia@laptop`. */
export const nameOfKey = (line: string): string => line.trim().split(/\s+/).slice(2).join(' ').slice(0, 100);
