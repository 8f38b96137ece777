/**
 * `npm run up`: from a fresh clone to a running Berth.
 *
 * The scripts of this folder stand behind the npm commands. They are plain JavaScript that the Node of any npm runs (20 and
 * later), because they begin before Node 24 is there; `lib/` holds the steps they share. Each step looks first and acts only on
 * what is missing, so that a second start adds next to nothing.
 */
import { ensureDependencies } from './lib/dependencies.mjs';
import { usualAddress } from './lib/engine-address.mjs';
import { ensureEngine } from './lib/engine.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { program } from './lib/program.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

await runCommand(async () => {
  await ensureDependencies();
  const node = findNode24();
  const env = envWithNode(node);
  if (env['BERTH_ENGINE'] !== 'simulated') {
    const engine = await ensureEngine();
    // Found where Berth does not look by itself (Podman, a rootless engine): then it is told.
    if (engine !== undefined && engine !== usualAddress) env['DOCKER_HOST'] = engine;
  }
  return becomeProgram({ command: node, args: [...program, ...process.argv.slice(2)], env });
});
