/**
 * `npm run bench [-- name …] [--flags]`: runs benches in sequence (default: all), prints results,
 * and stores them in `RESULTS.md`. See `README.md`. `--short`: one short round, nothing stored.
 */
import { removeDataFolder } from '../scripts/lib/remove-data-folder.mjs';
import { execFileSync } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { burst } from './burst.ts';
import { charging } from './charging.ts';
import { clusterLaunch } from './cluster-launch.ts';
import { clusterSettle } from './cluster-settle.ts';
import { connections } from './connections.ts';
import { consoleBench } from './console.ts';
import { create } from './create.ts';
import { firstCell } from './first-cell.ts';
import { forwarded } from './forwarded.ts';
import { gateway } from './gateway.ts';
import { gatewayStreams } from './gateway-streams.ts';
import { gatewayUpgrades } from './gateway-upgrades.ts';
import { hostile } from './hostile.ts';
import { isolation } from './isolation.ts';
import { launchCard } from './launch-card.ts';
import { launch } from './launch.ts';
import { machineFacts } from './lib/machine.ts';
import { againstRelease, keepRelease, keepSection, sectionOf } from './lib/results.ts';
import { list } from './list.ts';
import { logins } from './logins.ts';
import { cards } from './cards.ts';
import { metrics } from './metrics.ts';
import { settle } from './settle.ts';
import { start } from './start.ts';
import { statement } from './statement.ts';
import { storageFio } from './storage-fio.ts';
import { userNamespaces } from './user-namespaces.ts';
import { volumeCreate } from './volume-create.ts';

const benches: Record<string, Bench> = {
  list,
  create,
  logins,
  hostile,
  launch,
  'launch-card': launchCard,
  'first-cell': firstCell,
  'user-namespaces': userNamespaces,
  burst,
  isolation,
  start,
  settle,
  charging,
  statement,
  gateway,
  'gateway-streams': gatewayStreams,
  'gateway-upgrades': gatewayUpgrades,
  connections,
  forwarded,
  console: consoleBench,
  cards,
  metrics,
  'cluster-launch': clusterLaunch,
  'cluster-settle': clusterSettle,
  'storage-fio': storageFio,
  'volume-create': volumeCreate,
};
const names = Object.keys(benches);

const words = process.argv.slice(2);
const flags = new Set(words.filter((word) => word.startsWith('--')));
const named = words.filter((word) => !word.startsWith('--'));
const unknown = named.filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`There is no bench ${unknown.join(', ')}. There are: ${names.join(', ')}.`);
  process.exit(1);
}

/** Of the work tree, with the mark `-dirty` if files differ from the commit. */
const commit = execFileSync('git', ['describe', '--always', '--dirty', '--abbrev=10'], { encoding: 'utf8' }).trim();

const say = (text: string): void => console.error(text);

/** `scripts/bench.mjs` starts it alone, beside an engine of its own. */
const usual = names.filter((name) => name !== 'launch-card');

for (const name of named.length > 0 ? named : usual) {
  const bench = benches[name];
  if (!bench) continue;
  const folder = await mkdtemp(join(tmpdir(), 'berth-bench-'));
  try {
    say(`${name}: ${bench.title}`);
    const command = ['npm run bench --', name, ...flags].join(' ');
    const facts = [
      `${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC, \`${command}\``,
      `commit ${commit}`,
      ...machineFacts(folder),
    ];
    const outcome = await bench.run({ folder, flags, say });
    const { figures = {} } = outcome;
    if (flags.has('--release')) await keepRelease(name, commit, figures);
    else outcome.verdicts.push(...(await againstRelease(name, figures)));
    const section = sectionOf(name, bench.title, facts, outcome);
    console.log(`\n${section}`);
    if (!flags.has('--short')) await keepSection(name, section, names);
    if (outcome.verdicts.some(({ met }) => met === false)) process.exitCode = 2;
  } finally {
    removeDataFolder(folder);
  }
}
