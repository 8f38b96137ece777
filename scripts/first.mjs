/** `npm run first`: the first launch of a new user, under Node 24 (`first-launch.ts`). */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

const USAGE = `npm run first                       launches an instance, and prints a notebook link and an ssh command

npm run first -- --api URL          API of the installation, http://127.0.0.1:8080 by default
                --username NAME     account, admin by default
                --password-file F   file with the password; by default the first password of admin, or a question
                --name NAME         name of the instance, first by default`;

await runCommand(async () => {
  const word = /** @type {const} */ ({ type: 'string' });
  readArguments(USAGE, { options: { api: word, username: word, 'password-file': word, name: word } });
  await ensureDependencies();
  const node = findNode24();
  const args = ['scripts/first-launch.ts', ...process.argv.slice(2)];
  return becomeProgram({ command: node, args, env: envWithNode(node) });
});
