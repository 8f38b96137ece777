/** `npm run admin`: accounts and data of this host, under Node 24 (`host-admin.ts`). */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

const USAGE = `npm run admin -- list                    lists the accounts with their roles

npm run admin -- reset-password NAME     replaces a lost password, and prints the new one

npm run admin -- reset-second-factor NAME
                                         removes a lost second factor: the password alone opens the account

npm run admin -- sign-on-check [FILE]    says whether a login by the provider is allowed, with which role and
                                         why; FILE or the input has a token, or claims as JSON

npm run admin -- convert                 converts the data of a version before 0.2 (until 0.3)

All work while the server runs and while it is stopped, except the last one, which needs it stopped. Set the
same BERTH_* settings as for the server, and run it as the same user.`;

await runCommand(async () => {
  readArguments(USAGE, { options: {}, allowPositionals: true });
  await ensureDependencies();
  const node = findNode24();
  const args = ['scripts/host-admin.ts', ...process.argv.slice(2)];
  return becomeProgram({ command: node, args, env: envWithNode(node) });
});
