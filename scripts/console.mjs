/** `npm run console`: builds the web console, unless its sources are those of the last build. */
import { readArguments } from './lib/arguments.mjs';
import { ensureConsole } from './lib/console.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { findNode24 } from './lib/node24.mjs';
import { runCommand } from './lib/run.mjs';

const USAGE = 'npm run console   builds the web console into dist/console; a server reads it at its start';

await runCommand(async () => {
  readArguments(USAGE);
  await ensureDependencies();
  await ensureConsole(findNode24());
  return 0;
});
