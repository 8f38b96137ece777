/**
 * Kysely over node:sqlite. Kysely's driver layers (init, mutex, acquire, release, logging) are an
 * async hop each; here a query is compiled, found in the statement cache and run in one tick.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type {
  CompiledQuery,
  DatabaseConnection,
  Dialect,
  Driver,
  LimitNode,
  OffsetNode,
  OperationNode,
  QueryResult,
} from 'kysely';
import { DefaultQueryExecutor, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
import type { ScopedTransaction } from './group-commit.ts';
import type { Schema } from './schema.ts';
import type { Db } from '../store.ts';

interface Cached {
  statement: StatementSync;
  returnsRows: boolean;
}

/** Bounds the cache by evicting the oldest: lists of ids make a text per length. */
const MAX_STATEMENTS = 500;

const isBindable = (value: unknown): value is SQLInputValue =>
  value === null ||
  typeof value === 'string' ||
  typeof value === 'number' ||
  typeof value === 'bigint' ||
  ArrayBuffer.isView(value);

export class SqliteConnection implements DatabaseConnection {
  readonly database: DatabaseSync;
  readonly #onRows: (rows: number) => void;
  readonly #nextTurn: () => Promise<void> | null;
  readonly #statements = new Map<string, Cached>();

  /** `nextTurn` resolves when a query may run, or is null at once. */
  constructor(
    database: DatabaseSync,
    { onRows = (_rows: number) => {}, nextTurn = (): Promise<void> | null => null } = {},
  ) {
    this.database = database;
    this.#onRows = onRows;
    this.#nextTurn = nextTurn;
  }

  run<R>(sql: string, parameters: readonly unknown[]): QueryResult<R> {
    const cached = this.#statements.get(sql) ?? this.#prepare(sql);
    const values: SQLInputValue[] = [];
    for (const value of parameters) {
      if (!isBindable(value)) throw new TypeError(`A value of type ${typeof value} cannot be a parameter of: ${sql}`);
      values.push(value);
    }
    if (cached.returnsRows) {
      // The caller's query gives the row type: a database can't prove one to the compiler.
      const rows = cached.statement.all(...values) as R[];
      this.#onRows(rows.length);
      return { rows, numAffectedRows: BigInt(rows.length) };
    }
    const { changes, lastInsertRowid } = cached.statement.run(...values);
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  }

  executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const turn = this.#nextTurn();
    if (turn) return turn.then(() => this.run<R>(query.sql, query.parameters));
    try {
      return Promise.resolve(this.run<R>(query.sql, query.parameters));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async *streamQuery<R>(query: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    yield this.run<R>(query.sql, query.parameters);
  }

  #prepare(sql: string): Cached {
    const statement = this.database.prepare(sql);
    const cached = { statement, returnsRows: statement.columns().length > 0 };
    if (this.#statements.size >= MAX_STATEMENTS) {
      const [oldest] = this.#statements.keys();
      if (oldest !== undefined) this.#statements.delete(oldest);
    }
    this.#statements.set(sql, cached);
    return cached;
  }
}

/**
 * Casts the numbers of `limit` and `offset`: SQLite plans a query with a bare parameter there again
 * at each execution, which takes longer than most queries.
 */
class QueryCompiler extends SqliteQueryCompiler {
  protected override visitLimit({ limit }: LimitNode): void {
    this.#cast('limit', limit);
  }

  protected override visitOffset({ offset }: OffsetNode): void {
    this.#cast('offset', offset);
  }

  #cast(word: string, value: OperationNode): void {
    this.append(`${word} cast(`);
    this.visitNode(value);
    this.append(' as integer)');
  }
}

const adapter = new SqliteAdapter();
const compiler = new QueryCompiler();

/** Runs each query at once on the connection; refuses after `end`. */
class DirectExecutor extends DefaultQueryExecutor {
  readonly #connection: SqliteConnection;
  #ended = false;

  constructor(connection: SqliteConnection) {
    super(compiler, adapter, { provideConnection: (consumer) => consumer(connection) });
    this.#connection = connection;
  }

  end(): void {
    this.#ended = true;
  }

  override executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    if (this.#ended) {
      return Promise.reject(
        new Error('This transaction has ended: a query ran after the work of the transaction had returned.'),
      );
    }
    return this.#connection.executeQuery<R>(query);
  }
}

const refuse = (): Promise<never> =>
  Promise.reject(
    new Error('Only store.write begins transactions; each work of store.write already runs in a transaction.'),
  );

function driverOf(connection: SqliteConnection): Driver {
  return {
    init: async () => {},
    acquireConnection: async () => connection,
    beginTransaction: refuse,
    commitTransaction: refuse,
    rollbackTransaction: async () => {},
    releaseConnection: async () => {},
    destroy: async () => {},
  };
}

/** Makes `Db`s over one connection: permanent, untyped for migrations, or lent for one work. */
export function kyselyOver(connection: SqliteConnection): {
  db: Db;
  untyped: Kysely<unknown>;
  openScope: () => ScopedTransaction<Db>;
} {
  const driver = driverOf(connection);
  const dialect: Dialect = {
    createDriver: () => driver,
    createQueryCompiler: () => compiler,
    createAdapter: () => adapter,
    createIntrospector: (db) => new SqliteIntrospector(db),
  };
  const config = { dialect };
  const executor = new DirectExecutor(connection);
  return {
    db: new Kysely<Schema>({ config, dialect, driver, executor }),
    untyped: new Kysely<unknown>({ config, dialect, driver, executor }),
    openScope: () => {
      const own = new DirectExecutor(connection);
      return { tx: new Kysely<Schema>({ config, dialect, driver, executor: own }), end: () => own.end() };
    },
  };
}
