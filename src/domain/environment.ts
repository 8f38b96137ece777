/** Environment variables of an instance: the merge of layers, and the file its shells read. */

export type Environment = ReadonlyMap<string, string>;

/** A later layer replaces variables of an earlier one. */
export const mergeEnvironment = (...layers: readonly Environment[]): Environment =>
  new Map(layers.flatMap((layer) => [...layer]));

/** Lines for a POSIX shell and for Python's `shlex`. Values hold any text without NUL. */
export const shellExports = (environment: Environment): string =>
  [...environment].map(([name, value]) => `export ${name}='${value.replaceAll("'", `'\\''`)}'\n`).join('');
