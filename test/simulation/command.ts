/** `npm run simulate`: runs seeds, or one failed case with its trace. */
import { parseArgs } from 'node:util';
import { caseOf } from './cases.ts';
import { huntPlanted } from './planted-command.ts';
import { runAll, stopThreads, type CaseResult } from './worker-pool.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string' },
    case: { type: 'string' },
    seeds: { type: 'string' },
    from: { type: 'string', default: '0' },
    threads: { type: 'string' },
    last: { type: 'string' },
    all: { type: 'boolean', default: false },
    planted: { type: 'boolean', default: false },
  },
});

const wanted = values.case ?? (values.seed === undefined ? undefined : `seed:${values.seed}`);
const count = Number(values.seeds ?? (values.planted ? 2_000 : 300));
const from = Number(values.from);
if (values.planted) process.exit((await huntPlanted(positionals[0], count)) > 0 ? 1 : 0);
if (wanted !== undefined) caseOf(wanted);

const threads = values.threads === undefined ? {} : { threads: Number(values.threads) };
const failed: CaseResult[] = [];
let done = 0;
let virtualMs = 0;
let steps = 0;

const traceOf = ({ trace }: CaseResult, lines: number): string => trace.trimEnd().split('\n').slice(-lines).join('\n');

function report(outcome: CaseResult): boolean {
  done += 1;
  virtualMs += outcome.virtualMs;
  steps += outcome.steps;
  if (wanted !== undefined) process.stdout.write(`${traceOf(outcome, Number(values.last ?? Infinity))}\n`);
  if (outcome.wrong === null) {
    if (done % 1_000 === 0) process.stderr.write(`${done} runs\n`);
    return true;
  }
  failed.push(outcome);
  if (wanted === undefined) process.stdout.write(`${traceOf(outcome, Number(values.last ?? 40))}\n`);
  process.stdout.write(`${outcome.name}: ${outcome.wrong}\nagain: npm run simulate -- --case ${outcome.name}\n\n`);
  return values.all;
}

function* names(): Generator<string> {
  if (wanted !== undefined) yield wanted;
  else for (let seed = from; seed < from + count; seed++) yield `seed:${seed}`;
}

const beganMs = performance.now();
await runAll(names(), report, wanted === undefined ? threads : { threads: 1, withTrace: true });
await stopThreads();
const tookS = (performance.now() - beganMs) / 1000;
const hours = (virtualMs / 3_600_000).toFixed(1);
process.stdout.write(
  `${done} runs, ${failed.length} failed; ${steps} steps and ${hours} simulated hours in ${tookS.toFixed(1)} s\n`,
);
process.exitCode = failed.length > 0 ? 1 : 0;
