/** Names of runs for `npm run simulate`. A name determines the run. */
import {
  engineFaultModes,
  storageFaultModes,
  type CommitFault,
  type EngineFaultMode,
  type StorageFaultChoice,
} from './call-outcomes.ts';

export const scenarioNumbers = [0, 1, 2, 3] as const;

export type Case =
  | { kind: 'seed'; seed: number }
  /** Kills the server at this step of a fixed scenario. */
  | { kind: 'crash'; story: number; step: number }
  /** Applies the mode to this engine call. */
  | { kind: 'engine'; story: number; nth: number; mode: EngineFaultMode }
  | { kind: 'storage'; story: number; nth: number; mode: StorageFaultChoice['mode'] }
  | { kind: 'commit'; story: number; nth: number; mode: CommitFault }
  | { kind: 'statement'; story: number; nth: number }
  /** Sends every request twice at once. */
  | { kind: 'twice'; story: number; seed: number }
  | { kind: 'outage'; story: number; atMs: number; forMs: number; how: Outage }
  | { kind: 'lie'; story: number; how: Lie; seed: number }
  /** Compares a life with a kill to one without. */
  | { kind: 'takeover'; atMs: number };

export const outages = ['away', 'silent', 'flapping', 'rebooted', 'emptied', 'restored'] as const;
export type Outage = (typeof outages)[number];
export const lies = ['runs', 'gone', 'done', 'empty', 'another', 'foreign'] as const;
export type Lie = (typeof lies)[number];

export const commitModes = ['full', 'io', 'ioDone'] as const;

/** Parses a name: `crash:1:17` is step 17 of the second scenario. */
export function caseOf(name: string): Case {
  const [kind, ...rest] = name.split(':');
  const number = (at: number): number => {
    const found = Number(rest[at] ?? '');
    if (!rest[at] || !Number.isSafeInteger(found)) throw new Error(`${name} is no case: ${rest[at]} is no number`);
    return found;
  };
  const among = <T extends string>(known: readonly T[], at: number): T => {
    const found = known.find((one) => one === rest[at]);
    if (found === undefined) throw new Error(`${name} is no case: ${rest[at]} is none of ${known.join(', ')}`);
    return found;
  };
  const story = kind === 'seed' || kind === 'takeover' ? 0 : number(0);
  switch (kind) {
    case 'seed':
      return { kind, seed: number(0) };
    case 'twice':
      return { kind, story, seed: number(1) };
    case 'crash':
      return { kind, story, step: number(1) };
    case 'engine':
      return { kind, story, nth: number(1), mode: among(engineFaultModes, 2) };
    case 'storage':
      return { kind, story, nth: number(1), mode: among(storageFaultModes, 2) };
    case 'commit':
      return { kind, story, nth: number(1), mode: among(commitModes, 2) };
    case 'statement':
      return { kind, story, nth: number(1) };
    case 'outage':
      return { kind, story, atMs: number(1), forMs: number(2), how: among(outages, 3) };
    case 'lie':
      return { kind, story, how: among(lies, 1), seed: number(2) };
    case 'takeover':
      return { kind, atMs: number(0) };
    default:
      throw new Error(
        `${name} is no case: it begins with none of seed, twice, crash, engine, storage, commit, statement, outage, lie, takeover`,
      );
  }
}
