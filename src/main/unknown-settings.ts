import { nearestName } from '../domain/kernel/nearest-name.ts';

/** Variables that the server does not read, by the file that reads or sets them. */
export const foreignVariables: Readonly<Record<string, string>> = {
  BERTH_SETUP: 'scripts/lib/engine.mjs',
  BERTH_TEST_LEVEL: 'test/fixtures/level.ts',
  BERTH_TEST_LOG: 'test/docker/e2e/in-process-server.ts',
  BERTH_TOTALS_FILE: 'scripts/totals-reporter.ts',
  BERTH_SEED: 'test/docker/e2e/kill.test.ts',
  // A server may run inside an instance.
  BERTH_INSTANCE_ID: 'src/domain/compute/own-variables.ts',
  BERTH_BASE_URL: 'src/domain/compute/own-variables.ts',
  BERTH_PORT_PREFIX: 'src/domain/compute/own-variables.ts',
  BERTH_PORT_URL: 'src/domain/compute/own-variables.ts',
  BERTH_NAME: 'images/start.sh',
  BERTH_TERMINAL: 'src/control/compute/inside/terminals/terminal-shell.ts',
  BERTH_TERMINAL_HOLDER: 'src/control/compute/inside/terminals/terminal-shell.ts',
};

/** A line for each `BERTH_*` variable that is neither a setting nor foreign. */
export function unknownSettings(set: readonly string[], settings: readonly string[]): string[] {
  const known = new Set([...settings, ...Object.keys(foreignVariables)]);
  return set
    .filter((name) => name.startsWith('BERTH_') && !known.has(name))
    .map((name) => {
      const near = nearestName(name, settings);
      const remedy = near === undefined ? 'docs/reference/settings.md lists all' : `did you mean ${near}?`;
      return `  ${name}: is not a setting; ${remedy}`;
    });
}
