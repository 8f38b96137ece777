/**
 * Formats pino's JSON log lines (level, time, msg) for people; passes every other line unchanged.
 */

/** @type {Record<number, [string, number]>} pino's levels, with their terminal colours */
const levels = {
  10: ['trace', 90],
  20: ['debug', 90],
  30: ['info', 32],
  40: ['warn', 33],
  50: ['error', 31],
  60: ['fatal', 35],
};

/** Members equal on every line. */
const left = new Set(['level', 'time', 'msg', 'pid', 'hostname']);

/**
 * @param {{ write: (text: string) => void, colors: boolean }} given
 * @returns {(text: string) => void} takes what the program prints, in pieces of any size
 */
export function readableLog({ write, colors }) {
  let rest = '';
  return (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) write(`${readableLine(line, colors)}\n`);
  };
}

/**
 * @param {string} line
 * @param {boolean} colors
 */
export function readableLine(line, colors) {
  const entry = parseEntry(line);
  if (entry === undefined) return line;
  const [name, color] = levels[Number(entry['level'])] ?? [String(entry['level']), 0];
  const { time: at, msg } = entry;
  const time = new Date(typeof at === 'number' ? at : String(at)).toLocaleTimeString('en-GB');
  const rest = Object.entries(entry)
    .filter(([key]) => !left.has(key))
    .map(([key, value]) => readableMember(key, value));
  const level = name.padEnd(5);
  return [time, colors ? `\u001B[${color}m${level}\u001B[0m` : level, typeof msg === 'string' ? msg : '', ...rest]
    .join(' ')
    .trimEnd();
}

/**
 * @param {string} key
 * @param {unknown} value
 */
function readableMember(key, value) {
  if (value !== null && typeof value === 'object' && 'stack' in value && typeof value.stack === 'string') {
    return `\n  ${value.stack.replaceAll('\n', '\n  ')}`;
  }
  return `${key}=${typeof value === 'string' && /^\S+$/.test(value) ? value : JSON.stringify(value)}`;
}

/**
 * @param {string} line
 * @returns {Record<string, unknown> | undefined}
 */
function parseEntry(line) {
  if (!line.startsWith('{')) return undefined;
  try {
    const entry = JSON.parse(line);
    return 'level' in entry && 'time' in entry ? entry : undefined;
  } catch {
    return undefined;
  }
}
