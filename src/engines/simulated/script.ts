export interface Crash {
  afterMs: number;
  exitCode: number;
  outOfMemory: boolean;
  once: boolean;
}

const useNames = ['kernel', 'terminal', 'ssh', 'cpu', 'gpu'] as const;
export type UseName = (typeof useNames)[number];

export interface Use {
  amount: number;
  forMs: number;
}

export interface TimedLine {
  afterMs: number;
  text: string;
}

export interface Listener {
  what: 'echo' | 'http';
  onLoopback: boolean;
}

export interface Script {
  initExit: { code: number; afterMs: number } | undefined;
  crash: Crash | undefined;
  readyAfterMs: number | undefined;
  ignoresTerm: boolean;
  listens: ReadonlyMap<number, Listener>;
  hasSsh: boolean;
  uses: ReadonlyMap<UseName, Use>;
  says: readonly TimedLine[];
  initSays: readonly TimedLine[];
  invalid: readonly string[];
}

const plain: Script = {
  initExit: undefined,
  crash: undefined,
  readyAfterMs: undefined,
  ignoresTerm: false,
  listens: new Map(),
  hasSsh: true,
  uses: new Map(),
  says: [],
  initSays: [],
  invalid: [],
};

const mark = 'berth-sim:';
const line = /^[ \t]*#[ \t]*berth-sim:(.*)$/gm;
const time = '(\\d+(?:\\.\\d+)?)(ms|s|m|h)';
const exitLine = new RegExp(`^exit (\\d{1,3})(?: after ${time})?$`);
const crashLine = new RegExp(`^crash( once)? after ${time}(?: (?:exit (\\d{1,3})|(out of memory)))?$`);
const readyLine = new RegExp(`^ready after ${time}$`);
const useLine = new RegExp(
  `^(?:(kernel) busy|(terminal) used|(ssh) sessions (\\d{1,3})|(cpu|gpu) (\\d{1,4})%)(?: for ${time})?$`,
);
const sayLine = new RegExp(`^(say|init says) after ${time} (.+)$`);
const listenLine = /^listen (\d{1,5}) (echo|http)( on loopback)?$/;

const msOf = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;
const duration = (number = '0', unit = 'ms'): number =>
  Number(number) * (unit === 'ms' || unit === 's' || unit === 'm' || unit === 'h' ? msOf[unit] : 1);

export function readScript(texts: readonly string[]): Script {
  // Fast path: almost no file has such a line.
  if (!texts.some((text) => text.includes(mark))) return plain;
  const listens = new Map<number, Listener>();
  const uses = new Map<UseName, Use>();
  const invalid: string[] = [];
  const says = { say: new Array<TimedLine>(), 'init says': new Array<TimedLine>() };
  const script: Script = { ...plain, listens, uses, says: says.say, initSays: says['init says'], invalid };
  for (const [, raw = ''] of texts.flatMap((text) => [...text.matchAll(line)])) {
    const instruction = raw.trim().replace(/\s+/g, ' ');
    const forms = [exitLine, crashLine, readyLine, listenLine, sayLine];
    const [exit, crash, ready, listen, output] = forms.map((form) => form.exec(instruction));
    const use = readUse(instruction);
    if (exit) script.initExit = { code: Number(exit[1]), afterMs: duration(exit[2], exit[3]) };
    else if (crash) {
      const outOfMemory = crash[5] !== undefined;
      const exitCode = outOfMemory ? 137 : Number(crash[4] ?? 1);
      script.crash = { once: crash[1] !== undefined, afterMs: duration(crash[2], crash[3]), exitCode, outOfMemory };
    } else if (ready) script.readyAfterMs = duration(ready[1], ready[2]);
    else if (listen)
      listens.set(Number(listen[1]), {
        what: listen[2] === 'http' ? 'http' : 'echo',
        onLoopback: listen[3] !== undefined,
      });
    else if (output)
      says[output[1] === 'say' ? 'say' : 'init says'].push({
        afterMs: duration(output[2], output[3]),
        text: output[4] ?? '',
      });
    else if (use) uses.set(...use);
    else if (instruction === 'no ssh') script.hasSsh = false;
    else if (instruction === 'ignore TERM') script.ignoresTerm = true;
    else if (instruction === 'never ready') script.readyAfterMs = Infinity;
    else invalid.push(`berth-sim: unknown instruction: ${JSON.stringify(instruction)}`);
  }
  return script;
}

function readUse(instruction: string): [UseName, Use] | null {
  const found = useLine.exec(instruction);
  if (!found) return null;
  const [, kernel, terminal, ssh, sessions, share, percent, time, unit] = found;
  const name = useNames.find((use) => use === (kernel ?? terminal ?? ssh ?? share));
  if (name === undefined) return null;
  const forMs = time === undefined ? Infinity : duration(time, unit);
  return [name, { amount: Number(sessions ?? percent ?? 1), forMs }];
}
