/** `npm run audit -- verify|export`: the audit log of the data folder, under Node 24. */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand, Unready } from './lib/run.mjs';

const USAGE = `npm run audit -- verify                        names the first record that was changed, removed or reordered
npm run audit -- export [--from T] [--to T]    prints records as JSON lines; T is 2026-11-23T12:00:00Z or Unix milliseconds

Reads BERTH_DATA and BERTH_DATABASE_URL as the server does, while it runs or not.`;

await runCommand(async () => {
  const word = /** @type {const} */ ({ type: 'string' });
  const { positionals } = readArguments(USAGE, { options: { from: word, to: word }, allowPositionals: true });
  if (positionals.length !== 1 || !['verify', 'export'].includes(positionals[0] ?? '')) throw new Unready(USAGE);
  await ensureDependencies();
  const node = findNode24();
  const args = ['src/main/audit-command.ts', ...process.argv.slice(2)];
  return becomeProgram({ command: node, args, env: envWithNode(node) });
});
