/** Lists accounts, replaces a password, or converts the data, of the installation of BERTH_DATA. */
import { enableCompileCache } from 'node:module';
import { Refusal } from '../src/domain/kernel/refusal.ts';
import { errorText } from '../src/domain/kernel/unknown-error.ts';
import type { HostCommands } from '../src/main/host-commands.ts';
import { runCommand, say, Unready } from './lib/run.mjs';

// Must run before large modules load, as in `src/main/berth.mjs`.
enableCompileCache();

const { readConfig } = await import('../src/main/config.ts');
const { convertStoredData, withHostCommands } = await import('../src/main/host-commands.ts');

const [verb, name, ...more] = process.argv.slice(2);

async function run(commands: HostCommands): Promise<void> {
  if (verb === 'list' && name === undefined) {
    for (const { username, role, state } of await commands.list()) say(`${username}\t${role}\t${state}`);
    return;
  }
  if (verb !== 'reset-password' || name === undefined || more.length > 0)
    throw new Unready(
      'Write: npm run admin -- list, npm run admin -- reset-password NAME, or: npm run admin -- convert',
    );
  const { username, password, state } = await commands.resetPassword(name);
  say(`New password of ${username}: ${password}`);
  say('Every login of the account has ended; its API keys work on.');
  if (state !== 'active') say(`The account is ${state}: an administrator has to enable it before a login.`);
}

await runCommand(async () => {
  try {
    const config = readConfig(process.env);
    if (verb === 'convert' && name === undefined) await convertStoredData(config, say);
    else await withHostCommands(config, run);
  } catch (error) {
    if (error instanceof Unready) throw error;
    throw new Unready(error instanceof Refusal ? error.message : errorText(error));
  }
});
