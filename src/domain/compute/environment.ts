/** Environment variables of an instance: names and sizes, the merge of layers, the shells' file. */

export type Environment = ReadonlyMap<string, string>;

/** Scopes that hold variables, from the weakest to the strongest layer. */
export const variableSources = ['berth', 'installation', 'account', 'instance'] as const;
export type VariableSource = (typeof variableSources)[number];

/** A later layer replaces variables of an earlier one. */
export const mergeEnvironment = (...layers: readonly Environment[]): Environment =>
  new Map(layers.flatMap((layer) => [...layer]));

/** Lines for a POSIX shell and for Python's `shlex`. Values hold any text without NUL. */
export const shellExports = (environment: Environment): string =>
  [...environment].map(([name, value]) => `export ${name}='${value.replaceAll("'", `'\\''`)}'\n`).join('');

/** Characters. Shorter texts are in too many words. */
const SHORTEST_HIDDEN = 4;
/** Replaces lines of secrets, also one that a limit on the text has cut at its begin or end. */
export function hideSecrets(text: string, secrets: Environment): string {
  const lines = [...secrets]
    .flatMap(([name, value]) => value.split('\n').map((line) => ({ name, line: line.trim() })))
    .filter(({ line }) => line.length >= SHORTEST_HIDDEN)
    .toSorted((a, b) => b.line.length - a.line.length);
  let shown = lines.reduce((before, { name, line }) => before.replaceAll(line, `[${name}]`), text);
  for (const { name, line } of lines) {
    if (shown.length >= SHORTEST_HIDDEN && line.includes(shown)) return `[${name}]`;
    for (let length = Math.min(line.length, shown.length); length >= SHORTEST_HIDDEN; length--) {
      if (shown.endsWith(line.slice(0, length))) shown = `${shown.slice(0, -length)}[${name}]`;
      if (shown.startsWith(line.slice(-length))) shown = `[${name}]${shown.slice(length)}`;
    }
  }
  return shown;
}

const KIB = 1024;
/**
 * Limits of a layer. Linux refuses to start a program whose arguments and environment exceed 2 MiB
 * (a quarter of the stack), or 128 KiB in one variable: three full layers leave most to arguments.
 */
export const environmentLimits = {
  variables: 256,
  nameCharacters: 128,
  valueBytes: 32 * KIB,
  totalBytes: 128 * KIB,
} as const;

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const SHELLS_OWN = 'its shells set it themselves';
const OF_SESSIONS = 'it belongs to a session';
/** Names that no layer sets, with why. */
const reservedNames: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['HOME', 'USER', 'LOGNAME', 'SHELL'].map((name) => [name, 'programs run as root in /root'])),
  PATH: 'the image sets it; extend it in ~/.bashrc or the start command',
  ...Object.fromEntries(
    ['BASH_ENV', 'BASHOPTS', 'ENV', 'EUID', 'IFS', 'LINENO', 'OLDPWD', 'OPTARG', 'OPTIND', 'PPID', 'PWD']
      .concat(['SHELLOPTS', 'SHLVL', 'UID', '_', '__proto__'])
      .map((name) => [name, SHELLS_OWN]),
  ),
  ...Object.fromEntries(['HOSTNAME', 'TERM'].map((name) => [name, OF_SESSIONS])),
};
const reservedPrefixes: readonly [RegExp, string][] = [
  [/^BERTH_/i, 'names that begin with BERTH_ are for Berth'],
  [/^BASH_/, SHELLS_OWN],
  [/^SSH_/, OF_SESSIONS],
];

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
const shown = (name: string): string => JSON.stringify(name.length > 40 ? `${name.slice(0, 40)}…` : name);

/** Continues a sentence that begins with the field's name. Never quotes a value. */
export function refusalOfVariables(variables: Readonly<Record<string, string>>): string | null {
  const names = Object.keys(variables);
  const { variables: most } = environmentLimits;
  if (names.length > most) return `has ${names.length} variables, and the limit is ${most}; put more into a file`;
  for (const [name, value] of Object.entries(variables)) {
    const why = refusalOfName(name) ?? refusalOfValue(value);
    if (why !== null) return `has the variable ${shown(name)}: ${why}`;
  }
  return null;
}

function refusalOfName(name: string): string | null {
  const { nameCharacters } = environmentLimits;
  if (!NAME.test(name) || name.length > nameCharacters)
    return `a name is 1 to ${nameCharacters} letters, digits and underscores of ASCII, and does not begin with a digit`;
  const why = Object.hasOwn(reservedNames, name)
    ? reservedNames[name]
    : reservedPrefixes.find(([pattern]) => pattern.test(name))?.[1];
  return why === undefined ? null : `the name is reserved (${why}); choose another`;
}

function refusalOfValue(value: string): string | null {
  if (value.includes('\0') || !value.isWellFormed()) return 'a value is UTF-8 text without NUL; encode bytes as base64';
  const { valueBytes } = environmentLimits;
  const bytes = bytesOf(value);
  if (bytes <= valueBytes) return null;
  return `its value has ${bytes} bytes, and the limit is ${valueBytes}; put it into a file, and its path into the variable`;
}

/** Refuses a layer that is too large as a whole. */
export function refusalOfLayer(layer: Environment): string | null {
  const { variables, totalBytes } = environmentLimits;
  if (layer.size > variables)
    return `there would be ${layer.size} variables, and the limit is ${variables}; delete some first`;
  const bytes = [...layer].reduce((sum, [name, value]) => sum + name.length + bytesOf(value) + 2, 0);
  if (bytes <= totalBytes) return null;
  return `the variables would have ${bytes} bytes together, and the limit is ${totalBytes}; delete some first, or put large values into a file`;
}
