/** Commands about accounts and data of the installation of BERTH_DATA. */
import { readFile } from 'node:fs/promises';
import { enableCompileCache } from 'node:module';
import { text } from 'node:stream/consumers';
import { Refusal } from '../src/domain/kernel/refusal.ts';
import { errorText } from '../src/domain/kernel/unknown-error.ts';
import type { Config } from '../src/main/config.ts';
import type { HostCommands } from '../src/main/host-commands.ts';
import { runCommand, say, Unready } from './lib/run.mjs';

// Must run before large modules load, as in `src/main/berth.mjs`.
enableCompileCache();

const { readConfig } = await import('../src/main/config.ts');
const { convertStoredData, withHostCommands } = await import('../src/main/host-commands.ts');

const [verb, name] = process.argv.slice(2);

/** The fewest and the most arguments of each command. */
const COMMANDS: Record<string, [number, number]> = {
  list: [0, 0],
  'reset-password': [1, 1],
  'reset-second-factor': [1, 1],
  'sign-on-check': [0, 1],
  convert: [0, 0],
};

function refuseUnknownCommand(): void {
  const given = process.argv.length - 3;
  const [least, most] = COMMANDS[verb ?? ''] ?? [1, 0];
  if (given < least || given > most)
    throw new Unready(
      'Write: npm run admin -- list, npm run admin -- reset-password NAME, npm run admin -- reset-second-factor NAME, npm run admin -- sign-on-check [FILE], or: npm run admin -- convert',
    );
}

async function run(commands: HostCommands): Promise<void> {
  if (name === undefined) {
    for (const { username, role, state } of await commands.list()) say(`${username}\t${role}\t${state}`);
    return;
  }
  if (verb === 'reset-second-factor') {
    const { username, state } = await commands.resetSecondFactor(name);
    say(`${username} has no second factor any more: its password alone opens it. Every login of it has ended.`);
    sayState(state);
    return;
  }
  const { username, password, state } = await commands.resetPassword(name);
  say(`New password of ${username}: ${password}`);
  say('Every login of the account has ended; its API keys work on.');
  sayState(state);
}

function sayState(state: string): void {
  if (state !== 'active') say(`The account is ${state}: an administrator has to enable it before a login.`);
}

/** Returns the exit code. */
async function checkLogin({ signOn }: Config): Promise<number> {
  if (signOn === null) throw new Unready('Set the BERTH_OIDC_* variables as for the server.');
  const { checkSignOn } = await import('../src/main/sign-on-check.ts');
  const { isAllowed, lines } = checkSignOn(
    signOn,
    await (name === undefined ? text(process.stdin) : readFile(name, 'utf8')),
  );
  for (const line of lines) say(line);
  return isAllowed ? 0 : 1;
}

await runCommand(async () => {
  try {
    refuseUnknownCommand();
    const config = readConfig(process.env);
    if (verb === 'sign-on-check') return await checkLogin(config);
    if (verb === 'convert') await convertStoredData(config, say);
    else await withHostCommands(config, run);
    return 0;
  } catch (error) {
    if (error instanceof Unready) throw error;
    throw new Unready(error instanceof Refusal ? error.message : errorText(error));
  }
});
