/** Rules for new passwords (NIST SP 800-63B §3.1.1.2). Passwords in use are never checked. */
const MIN_CHARACTERS = 8;
const MIN_DIFFERENT_CHARACTERS = 5;
/** A run is `a`, `aaa`, `1234` or `cba`. */
const MIN_RUNS = 5;

const ADVICE = 'choose one that others do not guess, such as four words that do not belong together';

export interface PasswordOwner {
  username: string;
  email: string;
}

/** Returns the predicate of a sentence, or null for a good password. */
export function passwordFault(
  password: string,
  { username, email }: PasswordOwner,
  commonPasswords: ReadonlySet<string>,
): string | null {
  if (!password.isWellFormed()) return 'has half of a character (a lone surrogate): send it as valid UTF-8';
  const characters = Array.from(password.normalize('NFC'));
  if (characters.length < MIN_CHARACTERS)
    return `has ${characters.length} characters, and the minimum is ${MIN_CHARACTERS}`;
  const lower = characters.join('').toLowerCase();
  const own = [username, email, email.split('@')[0] ?? ''].map((name) => name.normalize('NFC').toLowerCase());
  if (own.includes(lower)) return `is the name or email address of the account: ${ADVICE}`;
  if (commonPasswords.has(lower)) return `is one of the most common passwords: ${ADVICE}`;
  const repeated = repeatedPart(lower);
  if (repeated.length < MIN_CHARACTERS || new Set(characters).size < MIN_DIFFERENT_CHARACTERS)
    return `repeats a few characters: ${ADVICE}`;
  if (countRuns(characters) < MIN_RUNS) return `is a sequence such as 12345678 or abcd1234: ${ADVICE}`;
  return null;
}

/** Returns the shortest part whose repetition is the text. */
function repeatedPart(text: string): string {
  const again = (text + text).indexOf(text, 1);
  return text.slice(0, again);
}

/** Counts runs of characters that are equal, or each the next one or the one before. */
function countRuns(characters: readonly string[]): number {
  let runs = 0;
  let step: number | null = null;
  for (const [index, character] of characters.entries()) {
    const before = characters[index - 1];
    const next = before === undefined ? Number.NaN : (character.codePointAt(0) ?? 0) - (before.codePointAt(0) ?? 0);
    if (step !== null ? next === step : index > 0 && Math.abs(next) <= 1) step = next;
    else {
      runs += 1;
      step = null;
    }
  }
  return runs;
}
