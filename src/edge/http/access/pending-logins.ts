/**
 * Logins under way, each in a sealed cookie named by the state: no other browser finishes a login,
 * and several tabs log in at once. The key of the seal is lost with the process, so a restart ends
 * each login under way.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { makeSeal } from '../../../control/index.ts';

const ABOUT = 'login by a provider';
const PREFIX = 'berth_oidc_';
export const LIFE_S = 600;
/** Leaves room for other cookies under the limit of headers. */
const MAX_BYTES = 6_000;

/** `expiresAtMs` is of the monotonic clock: the seal is of this process. */
const stored = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  to: z.string(),
  host: z.string(),
  expiresAtMs: z.number(),
});

export type Pending = z.output<typeof stored>;

interface CookieOptions {
  path: string;
  secure: boolean;
}

export function makePendingLogins({ path, secure }: CookieOptions) {
  const seal = makeSeal({ key: randomBytes(32), randomBytes });
  const cookie = (state: string, value: string, maxAgeS: number): string =>
    `${PREFIX}${state}=${value}; Path=${path}; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;

  const open = (sealed: string): Pending | null => {
    const text = seal.open(sealed, ABOUT);
    const pending = text === null ? null : stored.parse(JSON.parse(text));
    return pending !== null && performance.now() < pending.expiresAtMs ? pending : null;
  };

  const end = (state: string): string => cookie(state, '', 0);

  return {
    end,
    /** Returns cookies: the new login, and ends of old logins beyond the room. */
    begin(header: string | undefined, content: Omit<Pending, 'expiresAtMs'>): string[] {
      const expiresAtMs = performance.now() + LIFE_S * 1_000;
      const sealed = seal.seal(JSON.stringify({ ...content, expiresAtMs }), ABOUT);
      let bytes = sealed.length;
      const others = cookiesOf(header)
        .map(([state, value]) => ({ state, size: value.length, endsAtMs: open(value)?.expiresAtMs ?? 0 }))
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
