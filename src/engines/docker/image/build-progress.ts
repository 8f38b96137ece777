import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { Recipe } from './recipes.ts';

/** Immutable: `addBuildLine` returns the next state. */
export interface BuildState {
  readonly stage: string;
  readonly percent: number;
  readonly planned: number;
  readonly done: number;
}
export const firstBuildState: BuildState = { stage: 'Reading package lists', percent: 0, planned: 0, done: 0 };

const MAX_LINES = 80;

export type Report = (text: string, percent: number) => void;

/** Lines of mmdebstrap, the stage each begins, and its share of the time (images/README.md). */
const stages: readonly { line: RegExp; stage: string; from: number; to: number }[] = [
  { line: /^I: downloading packages with apt/, stage: 'Downloading the base system', from: 7, to: 9 },
  { line: /^I: extracting archives/, stage: 'Unpacking the base system', from: 9, to: 16 },
  { line: /^I: installing essential packages/, stage: 'Installing the base system', from: 16, to: 28 },
  { line: /^I: installing remaining packages/, stage: 'Installing packages', from: 28, to: 66 },
  { line: /^I: running --customize-hook/, stage: 'Finishing', from: 66, to: 81 },
  { line: /^I: creating tarball/, stage: 'Storing the image', from: 81, to: 99 },
];

export function addBuildLine(state: BuildState, line: string): BuildState {
  const entered = stages.find((stage) => stage.line.test(line));
  if (entered !== undefined) return { stage: entered.stage, percent: entered.from, planned: 0, done: 0 };
  const plan = /^\d+ upgraded, (\d+) newly installed/.exec(line);
  if (plan !== null) return { ...state, planned: 2 * Number(plan[1]), done: 0 };
  if (!/^(?:Unpacking|Setting up) /.test(line)) return state;
  const current = stages.find((stage) => stage.stage === state.stage);
  const done = state.done + 1;
  if (current === undefined || state.planned === 0) return { ...state, done };
  const percent = current.from + Math.floor((current.to - current.from) * Math.min(1, done / state.planned));
  return { ...state, done, percent: Math.max(state.percent, percent) };
}

export function makeBuildLog(report: Report): { lines: readonly string[]; add: (line: string) => void } {
  const lines: string[] = [];
  let state = firstBuildState;
  return {
    lines,
    add(line) {
      lines.push(line);
      if (lines.length > MAX_LINES) lines.shift();
      state = addBuildLine(state, line);
      report(state.stage, state.percent);
    },
  };
}

/** A fault with advice, from the last lines of a build. `cause` carries all lines for the log. */
export function describeFailure(recipe: Recipe, lines: readonly string[]): EngineFault {
  const text = lines.join('\n');
  const cause = new Error(text);
  const complaints = lines.filter(
    (line) => /^(?:E|W|Err|dpkg|tar)[: ]/.test(line) && !/^E: (?:run_|apt-get .* failed|.* failed)/.test(line),
  );
  const excerpt = (complaints.length > 0 ? complaints : lines).slice(-6).join('\n');
  const fault = (kind: EngineFault['kind'], retry: boolean, advice: string) =>
    new EngineFault(kind, `The image "${recipe.name}" cannot be built: ${advice}\n${excerpt}`, { retry, cause });
  if (/No space left on device|not have enough free space/i.test(text))
    return fault('no_capacity', true, 'the disk is full.');
  if (/NO_PUBKEY|not signed|Missing key|keyring/i.test(text))
    return fault(
      'rejected',
      false,
      `this machine lacks the keys of ${recipe.suite}. Install or update debian-archive-keyring.`,
    );
  const unknown = /Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate/.exec(text);
  if (unknown !== null) return fault('rejected', false, `${recipe.suite} has no package ${unknown[1] ?? unknown[2]}.`);
  if (
    /Failed to fetch|Temporary failure|Could not resolve|Could not connect|Unable to connect|Connection (?:failed|timed out)|Err:\d/i.test(
      text,
    )
  )
    return fault(
      'unreachable',
      true,
      `a package cannot be downloaded from ${[...new Set(recipe.sources.map((line) => line.split(/\s+/)[1]))].join(', ')}.`,
    );
  return fault('rejected', false, 'the last lines of the build were:');
}

/** Reads the engine's JSON lines. The engine answers 200 at once; a failure is the last line. */
export async function readBuildStream(answer: NodeJS.ReadableStream, onLine: (line: string) => void): Promise<void> {
  let failure: string | undefined;
  const reader = createInterface({ input: answer });
  const broken = once(answer, 'error').then(([error]: unknown[]) => Promise.reject(error));
  const read = async (): Promise<void> => {
    for await (const line of reader) {
      if (line.trim() === '') continue;
      const message: { stream?: string; error?: string } = JSON.parse(line);
      failure = message.error ?? failure;
      for (const text of (message.stream ?? '').split(/\r?\n/)) if (text !== '') onLine(text);
    }
  };
  await Promise.race([read(), broken]);
  if (failure !== undefined) throw new Error(failure);
}
