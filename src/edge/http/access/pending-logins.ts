/**
 * Logins under way, each in a sealed cookie named by the state: no other browser finishes a login,
 * and several tabs log in at once. A restart ends each login under way.
 */
import { z } from 'zod';
import { makeTimedSeal } from '../../../control/index.ts';

const PREFIX = 'berth_oidc_';
export const LIFE_S = 600;
/** Leaves room for other cookies under the limit of headers. */
const MAX_BYTES = 6_000;

const stored = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  to: z.string(),
  host: z.string(),
});

export type Pending = z.output<typeof stored> & { endsAtMs: number };

interface CookieOptions {
  path: string;
  secure: boolean;
}

export function makePendingLogins({ path, secure }: CookieOptions) {
  const elapsed = (): number => performance.now();
  const seal = makeTimedSeal({ about: 'login by a provider', lifeMs: LIFE_S * 1_000, elapsed });
  const cookie = (state: string, value: string, maxAgeS: number): string =>
    `${PREFIX}${state}=${value}; Path=${path}; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;

  const open = (sealed: string): Pending | null => {
    const opened = seal.open(sealed);
    return opened && { ...stored.parse(JSON.parse(opened.text)), endsAtMs: opened.endsAtMs };
  };

  const end = (state: string): string => cookie(state, '', 0);

  return {
    end,
    /** Returns cookies: the new login, and ends of old logins beyond the room. */
    begin(header: string | undefined, content: Omit<Pending, 'endsAtMs'>): string[] {
      const sealed = seal.seal(JSON.stringify(content));
      let bytes = sealed.length;
      const others = cookiesOf(header)
        .map(([state, value]) => ({ state, size: value.length, endsAtMs: open(value)?.endsAtMs ?? 0 }))
        .toSorted((one, other) => other.endsAtMs - one.endsAtMs);
      const ended = others.filter(({ size, endsAtMs }) => (bytes += size) > MAX_BYTES || endsAtMs === 0);
      return [cookie(content.state, sealed, LIFE_S), ...ended.map(({ state }) => end(state))];
    },
    find(header: string | undefined, state: unknown): Pending | null {
      const [, sealed] = cookiesOf(header).find(([name]) => name === state) ?? [];
      const pending = sealed === undefined ? null : open(sealed);
      return pending?.state === state ? pending : null;
    },
  };
}

/** Pairs of state and sealed value. */
const cookiesOf = (header = ''): [string, string][] =>
  header.split(';').flatMap((part): [string, string][] => {
    const [name = '', value = ''] = part.trim().split(/=(.*)/s);
    return name.startsWith(PREFIX) ? [[name.slice(PREFIX.length), value]] : [];
  });
