/** Shapes that several routes share. */
import { z } from 'zod';

/** The largest request body, in bytes. */
export const MAX_BODY_BYTES = 1024 * 1024;
export const MAX_PAGE_SIZE = 500;
const MAX_PAGE = 1_000_000_000;

const page = (max: number) => z.number().int().min(1).max(max);

/** Pages count from 1 (docs/interface.md §4.2). */
export const pagerRequest = z.object({ currentPage: page(MAX_PAGE), pageSize: page(MAX_PAGE_SIZE) });

export const pagerAnswer = z.strictObject({
  currentPage: z.number().int(),
  pageSize: z.number().int(),
  totalEntries: z.number().int(),
});

export const empty = z.object({});

/** Something to see: a name of joiners and spaces alone reads as none. */
const VISIBLE = /[\p{L}\p{N}\p{P}\p{S}]/u;
const CONTROL_OR_BIDI = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

/** A name people read: not blank, no control characters, lone surrogates or bidirectional overrides; kept in NFC. */
export const label = (maxLength: number) =>
  z
    .string()
    .refine(
      (text) =>
        VISIBLE.test(text) &&
        text.isWellFormed() &&
        text.trim() === text &&
        [...text].length <= maxLength &&
        !CONTROL_OR_BIDI.test(text),
      { error: `must be 1 to ${maxLength} characters, without control characters and without spaces at its ends` },
    )
    .meta({ minLength: 1, maxLength })
    .transform((text) => text.normalize('NFC'));

/** Text that ends up in a query or a command line: no database and no kernel takes NUL, and a lone surrogate has no UTF-8. */
export const plainText = (maxLength: number) =>
  z
    .string()
    .refine((text) => text.length <= maxLength && text.isWellFormed() && !/\p{Cc}/u.test(text), {
      error: `must be at most ${maxLength} characters, without control characters`,
    })
    .meta({ maxLength });

/** Ids are looked up, not parsed: an unknown one is 404 and says which. Bounded so that no lookup is absurd. */
export const id = z
  .string()
  .refine((text) => text.length > 0 && text.length <= 100 && text.isWellFormed() && !/\p{Cc}/u.test(text), {
    error: 'must be 1 to 100 characters, without control characters',
  })
  .meta({ minLength: 1, maxLength: 100 });

/** A secret: never shown back in a refusal, and masked by readers of the API document. */
export const secret = (minLength: number, maxLength: number) =>
  z.string().min(minLength).max(maxLength).meta({ format: 'password' });

const MAX_VOLUME_NAME = 64;

/** Letters and digits of any script, space, dot, dash and underscore: safe in a path, a label and a sentence. Kept in NFC. */
export const volumeName = z
  .string()
  .refine(
    (text) =>
      /^[\p{L}\p{N}][\p{L}\p{M}\p{N} ._-]*$/u.test(text) && text.trim() === text && [...text].length <= MAX_VOLUME_NAME,
    {
      error: `must be 1 to ${MAX_VOLUME_NAME} letters, digits, spaces, dots, dashes or underscores, and start with a letter or digit`,
    },
  )
  .transform((text) => text.normalize('NFC'));
