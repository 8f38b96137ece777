/**
 * `npm run simulate [-- arguments]`: seeds of the simulation in `test/simulation/`, under Node 24.
 */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand, Unready } from './lib/run.mjs';

const USAGE = `npm run simulate -- --seed 1234                one seed, with its trace
npm run simulate -- --case crash:1:17          one case of the other tests, with its trace
npm run simulate -- --seeds 20000 [--from 0]   many, until one fails; --all goes on after a failure
npm run simulate -- --planted [name]           hunts planted faults, in 2000 seeds each unless --seeds says otherwise
        --threads 2                            number of threads
        --last 60                              only the last lines of a trace`;

const word = /** @type {const} */ ({ type: 'string' });
const flag = /** @type {const} */ ({ type: 'boolean' });
const options = {
  seed: word,
  case: word,
  seeds: word,
  from: word,
  threads: word,
  last: word,
  all: flag,
  planted: flag,
};

await runCommand(async () => {
  const { values } = readArguments(USAGE, { options, allowPositionals: true });
  for (const [name, value] of Object.entries(values)) {
    if (['seeds', 'from', 'threads', 'last'].includes(name) && !/^\d+$/.test(String(value)))
      throw new Unready(`--${name} is ${String(value)}: it must be a whole number\n\n${USAGE}`);
  }
  await ensureDependencies();
  const node = findNode24();
  const args = ['test/simulation/command.ts', ...process.argv.slice(2)];
  return becomeProgram({ command: node, args, env: envWithNode(node) });
});
