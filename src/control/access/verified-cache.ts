/**
 * Credentials that were found good, so that the next request with the same one costs a map look-up. An entry is keyed by the whole
 * credential, dies with it, and is believed for a second: then the store is asked again, so that what another process ended is
 * refused here within that second. What this process ends, it forgets at once.
 */
import { copyString } from '../inside/copy-string.ts';

export interface Standing<Subject> {
  subject: Subject;
  expiresAtMs: number;
}

export interface Known<Subject> {
  /** Null when it is not known, or was asked about too long ago. Never waits. */
  fresh(credential: string): Subject | null;
  /** Asks when it is not fresh; one question at a time for each credential. Null for one that stands for nobody. */
  find(credential: string): Promise<Subject | null>;
  /** Asks now, whatever is known. */
  findAnew(credential: string): Promise<Subject | null>;
  /** Forgets these, and trusts no answer to a question that was asked before. */
  end(which: (subject: Subject) => boolean): void;
  readonly size: number;
}

const FRESH_MS = 1000;

export const makeKnown = <Subject>(deps: {
  now: () => number;
  max: number;
  /** `before` is what it was found to be earlier, unless it has expired. */
  ask: (credential: string, before: Subject | null) => Promise<Standing<Subject> | null>;
}): Known<Subject> => {
  const { now, max, ask } = deps;
  // The time of an entry is when the store was asked, not when it answered.
  const entries = new Map<string, Standing<Subject> & { askedAtMs: number }>();
  const asking = new Map<string, Promise<Subject | null>>();
  let endings = 0;

  /** One in use is kept anew each second, which moves it to the end: the first is the one unused for longest. */
  const keep = (credential: string, standing: Standing<Subject>, askedAtMs: number): void => {
    entries.delete(credential);
    entries.set(copyString(credential), { ...standing, askedAtMs });
    for (const oldest of entries.keys()) {
      if (entries.size <= max) break;
      entries.delete(oldest);
    }
  };

  const askAnew = async (credential: string): Promise<Subject | null> => {
    const askedAtMs = now();
    const endingsBefore = endings;
    const before = entries.get(credential);
    const standing = await ask(credential, before && askedAtMs < before.expiresAtMs ? before.subject : null);
    if (standing === null) entries.delete(credential);
    // An ending that came meanwhile may be of this one: the answer was true when asked, but must not be kept.
    else if (endings === endingsBefore) keep(credential, standing, askedAtMs);
    return standing && standing.subject;
  };

  return {
    fresh(credential) {
      const entry = entries.get(credential);
      if (entry === undefined) return null;
      const nowMs = now();
      // A clock that was set back must not make an old answer look new.
      const ageMs = nowMs - entry.askedAtMs;
      return ageMs >= 0 && ageMs < FRESH_MS && nowMs < entry.expiresAtMs ? entry.subject : null;
    },

    async find(credential) {
      const known = this.fresh(credential);
      if (known !== null) return known;
      const underWay = asking.get(credential);
      if (underWay) return underWay;
      const question = askAnew(credential);
      asking.set(credential, question);
      try {
        return await question;
      } finally {
        if (asking.get(credential) === question) asking.delete(credential);
      }
    },

    findAnew: askAnew,

    end(which) {
      endings += 1;
      asking.clear();
      for (const [credential, { subject }] of entries) if (which(subject)) entries.delete(credential);
    },

    get size() {
      return entries.size;
    },
  };
};
