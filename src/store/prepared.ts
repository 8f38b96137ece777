/**
 * A query built and compiled once and then run with other values. Building and compiling is most of what a small query costs here
 * (3 to 5 of 6 µs on SQLite), so the queries that every write makes are made this way:
 *
 *     const nameOf = prepared<{ id: string }>()((db, p) =>
 *       db.selectFrom('account').select('username').where('id', '=', p('id')));
 *     const [row] = await nameOf(db, { id });
 *
 * `p('id')` stands where the value will be, typed as the member of that name, and may be used more than once. What changes the text
 * of a query (a list's length, an optional condition) can't be a parameter: build such queries as usual.
 */
import type { Compilable, CompiledQuery, RawBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Db } from './store.ts';

class Slot {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

type Parameter<P> = <K extends keyof P & string>(name: K) => RawBuilder<P[K]>;

/** Compiled texts by adapter, of which each engine has one. */
type ByEngine<O> = WeakMap<object, CompiledQuery<O>>;

export function prepared<P extends object>(): <O>(
  build: (db: Db, p: Parameter<P>) => Compilable<O>,
) => (db: Db, values: P) => Promise<O[]> {
  const slot: Parameter<P> = <K extends keyof P & string>(name: K) => sql<P[K]>`${new Slot(name)}`;
  return <O>(build: (db: Db, p: Parameter<P>) => Compilable<O>) => {
    const compiled: ByEngine<O> = new WeakMap();
    return async (db, values) => {
      const engine = db.getExecutor().adapter;
      let query = compiled.get(engine);
      if (!query) {
        query = build(db, slot).compile();
        compiled.set(engine, query);
      }
      const given = new Map<string, unknown>(Object.entries(values));
      const parameters = query.parameters.map((parameter) => (parameter instanceof Slot ? given.get(parameter.name) : parameter));
      const { rows } = await db.executeQuery<O>({ ...query, parameters });
      return rows;
    };
  };
}
