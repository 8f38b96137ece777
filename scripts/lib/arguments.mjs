/**
 * Arguments of a command: answers `--help`, and refuses what the command does not know, before
 * anything is installed or started.
 */
import { parseArgs } from 'node:util';
import { say, Unready } from './run.mjs';

/**
 * @param {string} usage
 * @param {import('node:util').ParseArgsConfig} [config] as parseArgs takes
 * @returns {{ values: Record<string, unknown>, positionals: string[] }}
 */
export function readArguments(usage, { options, ...config } = {}) {
  const help = /** @type {const} */ ({ type: 'boolean', short: 'h' });
  const parsed = (() => {
    try {
      return parseArgs({ ...config, options: { ...options, help } });
    } catch (error) {
      throw new Unready(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
    }
  })();
  if (parsed.values['help'] === true) {
    say(usage);
    process.exit(0);
  }
  return parsed;
}
