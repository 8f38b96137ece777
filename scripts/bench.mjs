/** `npm run bench [-- arguments]`: the benchmarks of `bench/`, under Node 24. */
import { readArguments } from './lib/arguments.mjs';
import { currentDockerCommand } from './lib/current-docker.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, findProgram, runCommand, Unready } from './lib/run.mjs';

const USAGE = `npm run bench                        all benches, about twenty minutes
npm run bench -- list create         selected benches: bench/README.md names them
npm run bench -- create --short      one short round, for a trial; nothing is stored
npm run bench -- list create --release   keeps the figures as those of a release
npm run bench -- launch-card         alone, on the current Docker of npm run test:world
npm run bench -- list --million      with a million rows
npm run bench -- hostile --only=csv  only the kinds of requests whose name has this text`;

await runCommand(async () => {
  const flag = /** @type {const} */ ({ type: 'boolean' });
  const options = { short: flag, million: flag, release: flag };
  const only = /** @type {const} */ ({ type: 'string' });
  const { positionals } = readArguments(USAGE, { options: { ...options, only }, allowPositionals: true });
  await ensureDependencies();
  const node = findNode24();
  const { command: engine = [], why } = positionals.join() === 'launch-card' ? await currentDockerCommand() : {};
  if (why !== undefined) throw new Unready(why);
  const [command = node, ...args] = [...engine, node, 'bench/run.ts', ...process.argv.slice(2)];
  return becomeProgram({ command: findProgram(command) ?? command, args, env: envWithNode(node) });
});
