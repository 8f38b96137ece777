/** `npm run uninstall`: removes an installation from the host, under Node 24 (`uninstall.ts`). */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

const USAGE = `npm run uninstall            removes the installation of BERTH_DATA from this host, after a question

npm run uninstall -- --yes   asks nothing

Removes instances, volumes, images saved from instances, networks, firewall rules, mounts, loop devices,
the disk pools and the data folder. Set the same BERTH_* settings as for the server, and stop the server first.`;

await runCommand(async () => {
  const { values } = readArguments(USAGE, { options: { yes: { type: 'boolean' } } });
  await ensureDependencies();
  const node = findNode24();
  const args = ['scripts/uninstall.ts', ...(values['yes'] === true ? ['--yes'] : [])];
  return becomeProgram({ command: node, args, env: envWithNode(node) });
});
