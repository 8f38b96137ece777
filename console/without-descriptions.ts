/**
 * Leaves the descriptions of the API out of the console: the API document needs them, and nobody
 * reads them in a browser. They are a quarter of the contract.
 */
import type { Plugin, Rolldown } from 'vite';

/** Functions of `src/contract` whose last argument is a description. */
const described = new Set([
  'answer',
  'decimal',
  'flag',
  'integer',
  'integerOrNull',
  'named',
  'oneOfText',
  'request',
  'text',
  'textOrNull',
  'unixMs',
]);
const properties = new Set(['summary', 'details', 'description']);

interface Node {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

const isText = (value: unknown): value is Node =>
  isNode(value) &&
  ((value.type === 'Literal' && typeof value['value'] === 'string') ||
    (value.type === 'TemplateLiteral' && Array.isArray(value['expressions']) && value['expressions'].length === 0) ||
    (value.type === 'BinaryExpression' && isText(value['left']) && isText(value['right'])));

/** Texts that a description alone uses. */
function* textsOf(node: unknown): Generator<Node> {
  if (Array.isArray(node)) for (const one of node) yield* textsOf(one);
  if (!isNode(node)) return;
  const { callee, key, value } = node;
  const args = node['arguments'];
  if (node.type === 'CallExpression' && isNode(callee) && Array.isArray(args)) {
    const last: unknown = args.at(-1);
    const isDescribe =
      callee.type === 'MemberExpression' && isNode(callee['property']) && callee['property']['name'] === 'describe';
    const isDescribed = described.has(String(callee['name'])) && (args.length !== 2 || callee['name'] === 'oneOfText');
    if (isText(last) && (isDescribe || isDescribed)) yield last;
  }
  if (node.type === 'Property' && isNode(key) && properties.has(String(key['name'])) && isText(value)) yield value;
  for (const member of Object.values(node)) if (typeof member === 'object') yield* textsOf(member);
}

export const withoutDescriptions = (): Plugin => ({
  name: 'without-descriptions',
  apply: 'build',
  transform: {
    filter: { id: /\/src\/contract\/[^/]+\.ts$/ },
    handler(code): Rolldown.TransformResult {
      const texts = [...new Map([...textsOf(this.parse(code))].map((one) => [one.start, one])).values()];
      return texts
        .toSorted((one, other) => other.start - one.start)
        .reduce((kept, { start, end }) => `${kept.slice(0, start)}''${kept.slice(end)}`, code);
    },
  },
});
