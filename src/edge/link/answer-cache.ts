import { copyString } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';

const FRESH_MS = 1_000;
/** As long as a session of the gateway lasts that nobody uses. */
const LONGEST_MS = 24 * 3_600_000;
const MOST = 10_000;

export interface Believed<Answer> {
  of(question: string): Promise<Answer>;
  /** Believes these no more, and no answer to a question that was asked before. */
  forget(which: (answer: Answer) => boolean): void;
  /** Asks each anew before it is believed again, unless nobody is there. Answers what was believed. */
  doubt(): Answer[];
}

export function makeBelieved<Answer>(deps: {
  ask: (question: string) => Promise<Answer>;
  isThere: () => boolean;
  now: () => number;
}): Believed<Answer> {
  const { ask, isThere, now } = deps;
  const known = new Map<string, { answer: Answer; askedAtMs: number }>();
  const asking = new Map<string, Promise<Answer>>();
  let forgettings = 0;

  function within(question: string, longestMs: number): { answer: Answer } | null {
    const found = known.get(question);
    if (found === undefined) return null;
    const ageMs = now() - found.askedAtMs;
    return ageMs >= 0 && ageMs < longestMs ? found : null;
  }

  async function askAnew(question: string): Promise<Answer> {
    const askedAtMs = now();
    const forgettingsBefore = forgettings;
    try {
      const answer = await ask(question);
      known.delete(question);
      // Nobody is not kept: whoever tries secrets must not push out those that are good.
      if (answer !== null && forgettings === forgettingsBefore) known.set(copyString(question), { answer, askedAtMs });
      for (const oldest of known.keys()) {
        if (known.size <= MOST) break;
        known.delete(oldest);
      }
      return answer;
    } catch (error) {
      const isAway = error instanceof Refusal && error.code === 'unavailable';
      if (!isAway) known.delete(question);
      const last = isAway ? within(question, LONGEST_MS) : null;
      if (last === null) throw error;
      return last.answer;
    }
  }

  return {
    async of(question) {
      const last = within(question, isThere() ? FRESH_MS : LONGEST_MS);
      if (last !== null) return last.answer;
      const underWay = asking.get(question);
      if (underWay) return underWay;
      const answer = askAnew(question).finally(() => {
        if (asking.get(question) === answer) asking.delete(question);
      });
      asking.set(question, answer);
      return answer;
    },

    forget(which) {
      forgettings += 1;
      asking.clear();
      for (const [question, { answer }] of known) if (which(answer)) known.delete(question);
    },

    doubt() {
      forgettings += 1;
      asking.clear();
      for (const one of known.values()) one.askedAtMs = Math.min(one.askedAtMs, now() - FRESH_MS);
      return Array.from(known.values(), ({ answer }) => answer);
    },
  };
}
