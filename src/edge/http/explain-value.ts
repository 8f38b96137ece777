/** Explains a value out of bounds: field, value, allowed values. */
import { z } from 'zod';
import { unwrapSchema } from '../../contract/schema-bounds.ts';

const SHOWN_CHARACTERS = 60;
const SHOWN_ITEMS = 8;
const UNSHOWABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

type Issue = z.core.$ZodIssue;

export function explainValue(schema: z.core.$ZodType, body: unknown, issues: Issue[]): string {
  const issue = issues.toSorted((a, b) => depthOf(a) - depthOf(b))[0];
  if (!issue) throw new Error('a refused body without an issue');
  const field = fieldAt(schema, issue.path);
  if (field instanceof z.ZodRecord) return explainMember(field, issue);
  const value = valueAt(body, issue.path);
  const name = `field "${pathText(issue.path)}"`;
  const rule = describeRule(field, issue);
  if (isSecret(field)) return `${name} ${rule}`;
  if (issue.code === 'too_big' && Array.isArray(value)) return `${name} has ${value.length} items: it ${rule}`;
  return `${name} is ${show(value)}: it ${rule}`;
}

/** A member of a record: its value, which may be secret, is not shown. */
function explainMember({ keyType, valueType }: z.ZodRecord, issue: Issue): string {
  const { path, code, message } = issue;
  const name = `field "${pathText(path.slice(0, 1))}"`;
  if (code === 'custom') return `${name} ${message}`;
  const member = `${name} has ${show(path[1])}`;
  const [wrongKey] = code === 'invalid_key' ? issue.issues : [];
  if (wrongKey) return `${member}, which ${describeRule(keyType, wrongKey)}`;
  const value = unwrapSchema(valueType);
  return value instanceof z.ZodNumber
    ? `${member}: its value ${describeRule(value, issue)}`
    : `${member}, whose value is not a string`;
}

/** Nested fields come after all fields of the outer level; array items count as their array. */
const depthOf = (issue: Issue): number => issue.path.filter((key) => typeof key === 'string').length;

const pathText = (path: PropertyKey[]): string =>
  path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? String(key) : `${text}.${String(key)}`;
  }, '');

function fieldAt(schema: z.core.$ZodType, path: PropertyKey[]): z.core.$ZodType {
  let at = unwrapSchema(schema);
  for (const key of path) {
    if (at instanceof z.ZodArray) at = unwrapSchema(at.element);
    else if (at instanceof z.ZodObject && typeof key === 'string') at = unwrapSchema(at.shape[key]);
  }
  return at;
}

function valueAt(body: unknown, path: PropertyKey[]): unknown {
  let at = body;
  for (const key of path) at = typeof at === 'object' && at !== null ? Reflect.get(at, key) : undefined;
  return at;
}

const isSecret = (field: z.core.$ZodType): boolean =>
  field instanceof z.ZodType && field.meta()?.['format'] === 'password';

function describeRule(field: z.core.$ZodType, issue: Issue): string {
  // Shows texts of the contract ("must …"), never those of zod.
  if (issue.code === 'custom' || (issue.code === 'invalid_format' && issue.format === 'regex')) return issue.message;
  if (field instanceof z.ZodEnum)
    return `must be one of ${field.options.map((option) => JSON.stringify(option)).join(', ')}`;
  if (field instanceof z.ZodNumber)
    return `must be a ${field.isInt ? 'whole ' : ''}number from ${field.minValue ?? 'any'} to ${field.maxValue ?? 'any'}`;
  if (field instanceof z.ZodArray) return `must have ${arrayBounds(issue)}`;
  if (field instanceof z.ZodEmail)
    return `must be an email address${field.maxLength ? ` of at most ${field.maxLength} characters` : ''}`;
  if (field instanceof z.ZodString) return `must be ${between(field.minLength, field.maxLength)} characters`;
  return 'has an invalid value';
}

const arrayBounds = (issue: Issue): string =>
  issue.code === 'too_big'
    ? `at most ${issue.maximum} items`
    : issue.code === 'too_small'
      ? `at least ${issue.minimum} items`
      : 'valid items';

const between = (min: number | null, max: number | null): string =>
  min === null || min === 0 ? `at most ${max ?? 'any number of'}` : `${min} to ${max ?? 'any number of'}`;

function show(value: unknown): string {
  if (typeof value === 'string') return showText(value);
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'larger than the largest number';
  if (Array.isArray(value)) {
    const shown = value.slice(0, SHOWN_ITEMS).map((item) => (typeof item === 'object' ? '{…}' : show(item)));
    return `[${shown.join(',')}${value.length > SHOWN_ITEMS ? ',…' : ''}]`;
  }
  return typeof value === 'object' && value !== null ? '{…}' : String(value);
}

/** Escapes control characters and lone surrogates as JSON does, and bidirectional marks. */
export function showText(text: string): string {
  const characters = Array.from(text.slice(0, SHOWN_CHARACTERS * 2));
  const cut = characters.slice(0, SHOWN_CHARACTERS).join('');
  const quoted = JSON.stringify(cut).replace(UNSHOWABLE, escaped);
  return cut.length < text.length ? `${quoted}…` : quoted;
}

const escaped = (mark: string): string =>
  Array.from({ length: mark.length }, (_, at) => `\\u${mark.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');
