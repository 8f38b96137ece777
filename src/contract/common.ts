/** Shapes that several routes share, and the bodies of errors. */
import { z } from 'zod';
import { canonicalTimeZone } from '../domain/kernel/calendar.ts';
import { refusalCodes } from '../domain/kernel/refusal.ts';

/** Bytes. */
export const MAX_BODY_BYTES = 1024 * 1024;
/** Members of objects and items of arrays in a JSON body, all together. */
export const MAX_BODY_MEMBERS = 4_000;
/** Levels of arrays and objects in a JSON body. */
export const MAX_BODY_DEPTH = 64;
export const MAX_PAGE_SIZE = 500;
const MAX_PAGE = 1_000_000_000;

/** A component of the API document under this name. */
export const named = <Schema extends z.ZodType>(name: string, schema: Schema, description?: string): Schema =>
  schema.meta({ id: name, ...(description === undefined ? {} : { description }) });

/** A request or an object in one; unknown members are dropped. */
export const request = <Fields extends z.ZodRawShape>(name: string, fields: Fields, description?: string) =>
  named(name, z.object(fields), description);

/** An answer or an object in one; unknown members are an error. */
export const answer = <Fields extends z.ZodRawShape>(name: string, fields: Fields, description?: string) =>
  named(name, z.strictObject(fields), description);

/** Fields of answers, each with its description. */
export const text = (description: string) => z.string().describe(description);
/** Lists the known values in the API document; clients also accept values of newer servers. */
export const oneOfText = (values: readonly string[], description: string) =>
  z.string().meta({ description, enum: [...values] });
export const integer = (description: string) => z.number().int().describe(description);
export const decimal = (description: string) => z.number().describe(description);
export const integerOrNull = (description: string) => z.number().int().nullable().describe(description);
export const textOrNull = (description: string) => z.string().nullable().describe(description);
export const flag = (description: string) => z.boolean().describe(description);
export const unixMs = (event: string) => integer(`${event}, Unix milliseconds`);

export const wholeNumber = (min: number, max: number) => z.number().int().min(min).max(max);

/** docs/interface.md §4.2. */
export const pagerRequest = request(
  'PagerRequest',
  {
    currentPage: wholeNumber(1, MAX_PAGE).describe('Page number, from 1'),
    pageSize: wholeNumber(1, MAX_PAGE_SIZE).describe('Items on a page'),
  },
  'Selects a page of a list',
);

export const pagerAnswer = answer(
  'Pager',
  {
    currentPage: integer('Page number, from 1'),
    pageSize: integer('Items on a page'),
    totalEntries: integer('Items in the whole list'),
  },
  'The selected page and the length of the list',
);

export const empty = request('EmptyRequest', {}, 'No fields');
export const emptyAnswer = answer('EmptyAnswer', {}, 'No members');
export const pageRequest = request('ListRequest', { pager: pagerRequest.describe('Page to return') });

/** A name of joiners and spaces alone looks empty. */
const VISIBLE = '[\\p{L}\\p{N}\\p{P}\\p{S}]';
const CONTROL = '\\u0000-\\u001f\\u007f-\\u009f';
const CONTROL_OR_BIDI = `${CONTROL}\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069`;
const WITHOUT_CONTROL = new RegExp(`^[^${CONTROL}]*$`, 'u');
const SPACE = '\\s\\ufeff';
const LABEL = new RegExp(
  `^(?=.*${VISIBLE})[^${SPACE}${CONTROL_OR_BIDI}](?:[^${CONTROL_OR_BIDI}]*[^${SPACE}${CONTROL_OR_BIDI}])?$`,
  'u',
);

/** Characters of the stored name: NFC joins a letter and its combining marks. */
const lengthInNfc = (name: string): number => [...name.normalize('NFC')].length;

/** Display name in NFC without control characters, lone surrogates, bidirectional overrides. */
export const label = (maxLength: number) =>
  z
    .string()
    .refine((name) => LABEL.test(name) && name.isWellFormed() && lengthInNfc(name) <= maxLength, {
      error: `must be 1 to ${maxLength} characters, without control characters and without spaces at its ends`,
    })
    .meta({ minLength: 1, maxLength, pattern: LABEL.source })
    .transform((name) => name.normalize('NFC'));

/** Text for queries and command lines, which take neither NUL nor lone surrogates. */
export const plainText = (maxLength: number) =>
  z
    .string()
    .refine((value) => value.length <= maxLength && value.isWellFormed() && WITHOUT_CONTROL.test(value), {
      error: `must be at most ${maxLength} characters, without control characters`,
    })
    .meta({ maxLength, pattern: WITHOUT_CONTROL.source });

/** Name of a time zone, in the one spelling that all later code sees. */
export const timeZoneName = plainText(64)
  .refine((value) => canonicalTimeZone(value) !== null, {
    error: 'must be an IANA time zone, such as "Europe/Berlin" or "UTC"',
  })
  .overwrite((value) => canonicalTimeZone(value) ?? value);

/** Pattern of text without NUL. */
export const WITHOUT_NUL = '^[^\\u0000]*$';

/** Readers take either letter case (RFC 9562, 4). */
const UUID = /[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}/gi;

/** Marks `id` and its described copies, for the audit log. */
export const subjectIds = z.registry<{ isSubject: true }>();

/** Looked up, not parsed: an unknown id of any form is a 404 that names it. */
export const id = z
  .string()
  .refine((value) => value.length > 0 && value.length <= 100 && value.isWellFormed() && WITHOUT_CONTROL.test(value), {
    error: 'must be 1 to 100 characters, without control characters',
  })
  .meta({ minLength: 1, maxLength: 100, pattern: WITHOUT_CONTROL.source })
  .transform((text) => text.replace(UUID, (uuid) => uuid.toLowerCase()))
  .register(subjectIds, { isSubject: true });

export const idBody = request('IdRequest', { id: id.describe('ID of the resource') });
export const instanceIdBody = request('InstanceIdRequest', {
  instanceId: id.describe('Instance ID, `notebook-<uuid>`'),
});

/** Pattern of printable ASCII: a character is a byte. */
export const ASCII = '^[\\x20-\\x7e]*$';

/** Never quoted in an error. */
export const secret = (minLength: number, maxLength: number) =>
  z.string().min(minLength).max(maxLength).meta({ format: 'password' });

const MAX_VOLUME_NAME = 64;
const VOLUME_NAME = /^[\p{L}\p{N}](?:[\p{L}\p{M}\p{N} ._-]*[\p{L}\p{M}\p{N}._-])?$/u;

/** Letters and digits of any script, in NFC: safe in a path, a label and a sentence. */
export const volumeName = z
  .string()
  .refine((name) => VOLUME_NAME.test(name) && lengthInNfc(name) <= MAX_VOLUME_NAME, {
    error: `must be 1 to ${MAX_VOLUME_NAME} letters, digits, spaces, dots, dashes or underscores, and start with a letter or digit`,
  })
  .meta({ minLength: 1, maxLength: MAX_VOLUME_NAME, pattern: VOLUME_NAME.source })
  .transform((name) => name.normalize('NFC'));

/** Codes of requests that reach no route. */
export const unroutedCodes = [
  'bad_request',
  'method_not_allowed',
  'request_timeout',
  'expectation_failed',
  'misdirected',
  'headers_too_large',
] as const;
export type UnroutedCode = (typeof unroutedCodes)[number];

/** Values of `X-Error-Code`, by which clients branch. */
export const errorCodes = [...refusalCodes, ...unroutedCodes, 'internal'] as const;
export type ErrorCode = (typeof errorCodes)[number];

export const NOT_LOGGED_IN_CODE = -1;

const notLoggedInCode = z.literal(NOT_LOGGED_IN_CODE).describe('Always -1');
export const plainError = named('Error', z.object({ message: text('Cause and remedy') }));

/** 401 on routes that need a login. */
export const notLoggedInError = named(
  'NotLoggedIn',
  z.object({ code: notLoggedInCode, message: text('Cause and remedy') }),
);

export const problem = named(
  'Problem',
  z.object({
    type: text('`urn:berth:problem:` and the error code'),
    title: text('Summary of the kind of problem'),
    status: integer('HTTP status'),
    detail: text('Cause and remedy'),
    message: text('Same as `detail`'),
    code: notLoggedInCode.optional().describe('-1 for a missing or expired login'),
    current: z.record(z.string(), z.unknown()).optional().describe('Stored row, where the sent version is stale'),
  }),
  'Problem details, RFC 9457',
);
export type Problem = z.output<typeof problem>;

export const PROBLEM_TYPE = 'application/problem+json';
