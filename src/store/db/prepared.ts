/**
 * Compiles a query once and runs it with changing values, for queries of every write and of tasks
 * that run every second. On SQLite building a small query takes longer than running it: creates of
 * nine statements by 64 callers ran 1.7 to 2 times as often a second, where the disk was not the
 * limit.
 *
 *     const nameOf = prepared<{ id: string }>()((db, p) =>
 *       db.selectFrom('account').select('username').where('id', '=', p('id')));
 *     const [row] = await nameOf(db, { id });
 *
 * A list's length or an optional condition changes the query's text: build such queries as usual.
 */
import type { Compilable, CompiledQuery, RawBuilder, ValueNode } from 'kysely';
import { OperationNodeTransformer, sql } from 'kysely';
import type { Db } from '../store.ts';
import { complete, mapKeys } from './columns.ts';

class Slot<P> {
  readonly valueIn: (values: P) => unknown;
  constructor(valueIn: (values: P) => unknown) {
    this.valueIn = valueIn;
  }
}

/**
 * Writes constants into the text. SQLite plans a query again at each execution if a parameter is
 * compared with a column that the condition of an index names: a list took 90 µs instead of 20.
 */
class Literals extends OperationNodeTransformer {
  protected override transformValue(node: ValueNode): ValueNode {
    return node.value instanceof Slot ? node : { ...node, immediate: true };
  }
}
const literals = new Literals();

export const parameters = <P extends object>(
  p: Parameter<P>,
  names: readonly Extract<keyof P, string>[],
): { [K in keyof P]: RawBuilder<P[K]> } => {
  type Parameters = { [K in keyof P]: RawBuilder<P[K]> };
  return complete<Parameters>(
    mapKeys<Parameters>(names, (name) => p(name)),
    names,
  );
};

export type Parameter<P> = <K extends keyof P & string>(name: K) => RawBuilder<P[K]>;

interface Compiled<P, O> {
  query: CompiledQuery<O>;
  valuesIn: ((values: P) => unknown)[];
}

export function prepared<P extends object = object>(): <O>(
  build: (db: Db, p: Parameter<P>) => Compilable<O> | RawBuilder<O>,
) => (db: Db, values: P) => Promise<O[]> {
  const slot: Parameter<P> = <K extends keyof P & string>(name: K) =>
    sql<P[K]>`${new Slot<P>((values) => values[name])}`;
  return <O>(build: (db: Db, p: Parameter<P>) => Compilable<O> | RawBuilder<O>) => {
    /** Keyed by adapter: each engine has its own. */
    const byEngine = new WeakMap<object, Compiled<P, O>>();
    return async (db, values) => {
      const executor = db.getExecutor();
      let compiled = byEngine.get(executor.adapter);
      if (!compiled) {
        const built = build(db, slot);
        const { query, queryId } = 'isRawBuilder' in built ? built.compile(db) : built.compile();
        compiled = withSlots(executor.compileQuery<O>(literals.transformNode(query), queryId));
        byEngine.set(executor.adapter, compiled);
      }
      const { query, valuesIn } = compiled;
      const { rows } = await executor.executeQuery<O>({
        ...query,
        parameters: valuesIn.map((valueIn) => valueIn(values)),
      });
      return rows;
    };
  };
}

function withSlots<P, O>(query: CompiledQuery<O>): Compiled<P, O> {
  const valuesIn = query.parameters.map((parameter) =>
    parameter instanceof Slot ? (values: P): unknown => parameter.valueIn(values) : () => parameter,
  );
  return { query, valuesIn };
}

/**
 * Number for `limit` or `offset`. SQLite plans a query with a bare parameter there again at each
 * execution (sqlite3Reprepare: a third of the list query's cost), but not one with an expression.
 */
export const count = (value: number | RawBuilder<number>): RawBuilder<number> => sql<number>`cast(${value} as bigint)`;
