/** Walks a syntax tree (ESTree, with TypeScript's nodes) without knowing all node types. */
export interface Node {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}

export function isNode(value: unknown): value is Node {
  return (
    value !== null && typeof value === 'object' && 'type' in value && typeof value.type === 'string' && 'start' in value
  );
}

/** Direct children of a node. */
export function children(node: Node): Node[] {
  return Object.values(node).flatMap((value) =>
    Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [],
  );
}

/** The name of an identifier, or the text of a string: `a.env` and `a['env']` are equal. */
export function nameOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (typeof value['name'] === 'string') return value['name'];
  return value.type === 'Literal' && typeof value['value'] === 'string' ? value['value'] : undefined;
}

interface Visit {
  node: Node;
  isReference: boolean;
}

/** Rules walk the same files one after the other. */
const visitsOf = new WeakMap<Node, readonly Visit[]>();

/**
 * Returns every node, outermost first. `isReference`: the identifier is a value, not the name of a
 * member, key or type; `performance.now()` is a reference, `row.performance` and `{ performance: 1
 * }` are not.
 */
export function walk(root: Node): readonly Visit[] {
  const known = visitsOf.get(root);
  if (known) return known;
  const visits: Visit[] = [];
  const visit = (node: Node, isReference: boolean): void => {
    visits.push({ node, isReference });
    for (const [member, value] of Object.entries(node)) {
      if (value === null || typeof value !== 'object') continue;
      const isBelow = isReference && standsForValue(node, member);
      if (!Array.isArray(value)) {
        if (isNode(value)) visit(value, isBelow);
      } else for (const child of value) if (isNode(child)) visit(child, isBelow);
    }
  };
  visit(root, true);
  visitsOf.set(root, visits);
  return visits;
}

function standsForValue(parent: Node, member: string): boolean {
  if (parent.type.startsWith('TS')) return ['expression', 'initializer'].includes(member);
  if (parent['computed'] === true) return true;
  if (member === 'property') return parent.type !== 'MemberExpression';
  if (member === 'key') return parent['shorthand'] === true;
  return !['typeAnnotation', 'returnType', 'typeParameters', 'typeArguments'].includes(member);
}
