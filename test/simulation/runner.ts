/** Runs cases one after another in a thread without real time. */
import { mkdtempSync, rmSync, existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { caseOf } from './cases.ts';
import { watchDatabases } from './disk.ts';
import { run, type Outcome } from './run.ts';
import { forbidRealTime } from './schedule.ts';
import { compareLives } from './takeover.ts';
import { makeTemplates } from './template.ts';

/** Memory where possible: the data is lost on purpose anyway. */
const parentFolder = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

export interface Runner {
  run(name: string): Promise<Outcome>;
  stop(): void;
}

export async function makeRunner(): Promise<Runner> {
  const folder = mkdtempSync(join(parentFolder, 'berth-simulation-'));
  const templates = await makeTemplates(folder);
  watchDatabases();
  forbidRealTime();
  const unheard: unknown[] = [];
  Error.stackTraceLimit = 0;
  process.on('unhandledRejection', (reason) => unheard.push(reason));
  return {
    async run(name) {
      const what = caseOf(name);
      const at = { folder, templates };
      const outcome = await (what.kind === 'takeover' ? compareLives(what, at) : run(what, at));
      const [first] = unheard.splice(0);
      if (first === undefined || outcome.wrong !== null) return outcome;
      const text = first instanceof Error ? first.message : JSON.stringify(first);
      return { ...outcome, wrong: `a promise was rejected and nobody heard: ${text}` };
    },
    stop: () => rmSync(folder, { recursive: true, force: true }),
  };
}
