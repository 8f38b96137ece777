/**
 * `npm run up`: from a fresh clone to a running Berth. The scripts of this folder implement the npm
 * commands, in plain JavaScript for the Node of any npm (20 and later), because they begin before
 * Node 24 is installed. `lib/` holds shared steps. Each step acts only on missing parts, so that a
 * second start adds almost nothing.
 */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { ensureConsole } from './lib/console.mjs';
import { usualAddress } from './lib/engine-address.mjs';
import { ensureEngine } from './lib/engine.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { program } from './lib/program.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

const USAGE = `npm run up      installs what is missing, and starts Berth

Settings are environment variables: docs/reference/settings.md, for instance
  BERTH_LISTEN=0.0.0.0:8080 npm run up`;

await runCommand(async () => {
  readArguments(USAGE);
  await ensureDependencies();
  const node = findNode24();
  await ensureConsole(node);
  const env = envWithNode(node);
  if ((env['BERTH_ENGINE'] ?? 'docker') === 'docker') {
    const engine = await ensureEngine();
    // Found at an address that Berth does not try by itself (Podman, a rootless engine).
    if (engine !== undefined && engine !== usualAddress) env['DOCKER_HOST'] = engine;
  }
  return becomeProgram({ command: node, args: program, env });
});
