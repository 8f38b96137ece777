/**
 * Commands with time and streams (`cat`, `sleep`, `head -c`, `stty size`, `env`), and a minimal
 * shell: simple commands with `;`, quotes, `$NAME`, `$?`, `$$` and `>&2`. A script that ends with
 * `exec "$SHELL" -l` becomes a shell. Other commands are in `commands.ts`.
 */
import type { ExecRequest } from '../contract.ts';
import type { Clock } from './clock.ts';
import { permissionOf, emulate, type CommandContext } from './emulated-commands.ts';
import type { Io } from './processes.ts';

const [INTERRUPTED, KILLED] = [130, 137];
const PIECE = Buffer.alloc(64 * 1024);
/** Fixed: only the shell itself reads it. */
const PID = 42;
const shells = new Set(['sh', 'bash', '/bin/sh', '/bin/bash']);

export interface ShellContext {
  inside: () => CommandContext;
  clock: Clock;
  io: Io;
  env: Readonly<Record<string, string>>;
}

/** Thrown by `exit` and by killing the own shell. */
class Exit extends Error {
  readonly code: number;
  constructor(code: number) {
    super();
    this.code = code;
  }
}

export async function runInShell(context: ShellContext, { command }: Pick<ExecRequest, 'command'>): Promise<number> {
  try {
    return await run(context, command, context.io.signal, false);
  } catch (thrown) {
    if (thrown instanceof Exit) return thrown.code;
    throw thrown;
  }
}

async function run(
  context: ShellContext,
  command: readonly string[],
  signal: AbortSignal,
  toStderr: boolean,
): Promise<number> {
  const { io, clock, env } = context;
  const [name = '', ...args] = command;
  const say = toStderr ? io.err : io.out;
  if (shells.has(name)) return shell(context, args);
  if (name === 'cat' && args.length === 0) {
    for (let chunk = await io.read(signal); chunk !== null; chunk = await io.read(signal)) await say(chunk);
    return 0;
  }
  if (name === 'sleep') {
    const seconds = Number(args[0]);
    if (!(seconds >= 0)) return fail(io, `sleep: invalid time interval '${args[0] ?? ''}'`);
    await clock.sleep(seconds * 1_000, signal);
    return 0;
  }
  if (name === 'head' && args[0] === '-c' && args[2] === '/dev/zero' && Number(args[1]) >= 0) {
    for (let left = Number(args[1]); left > 0 && !signal.aborted; left -= PIECE.length)
      await say(PIECE.subarray(0, Math.min(left, PIECE.length)));
    return 0;
  }
  if (name === 'stty' && args[0] === 'size') {
    const size = io.size();
    if (size === null) return fail(io, 'stty: standard input: Not a tty');
    await say(`${size.rows} ${size.columns}\n`);
    return 0;
  }
  if (name === 'env' && args.length === 0) {
    for (const [variable, value] of Object.entries(env)) await say(`${variable}=${value}\n`);
    return 0;
  }
  const permission = permissionOf(context.inside().container, name);
  if (permission === 'not executable') return fail(io, `${name}: permission denied`, 126);
  const { exitCode, stdout, stderr } = await emulate(context.inside(), command);
  await say(stdout);
  await io.err(stderr);
  return exitCode;
}

async function fail(io: Io, text: string, code = 1): Promise<number> {
  await io.err(`${text}\n`);
  return code;
}

async function shell(context: ShellContext, args: readonly string[]): Promise<number> {
  const { io } = context;
  const script = args.find((arg) => !arg.startsWith('-'));
  const becomesShell = script?.endsWith('exec "$SHELL" -l') === true;
  if (!becomesShell && args.some((arg) => /^-[a-z]*c$/.test(arg))) return runLines(context, script ?? '', 0);
  if (script !== undefined && !becomesShell) return fail(io, `sh: ${script}: the simulation runs no scripts`, 127);
  const prompt = `root@${context.inside().container.spec.hostname}:~# `;
  let status = 0;
  let typed = '';
  for (;;) {
    if (io.size() !== null && typed === '') await io.out(prompt);
    const chunk = await io.read(io.signal);
    if (chunk === null) return typed === '' ? status : runLines(context, typed, status);
    typed += chunk.toString();
    const end = typed.lastIndexOf('\n');
    if (end < 0) continue;
    status = await runLines(context, typed.slice(0, end), status);
    typed = typed.slice(end + 1);
  }
}

async function runLines(context: ShellContext, text: string, before: number): Promise<number> {
  const { io } = context;
  let status = before;
  for (const { words, toStderr } of parse(text, { ...context.env, '?': () => String(status), $: () => String(PID) })) {
    const [name = '', first = '', second = ''] = words;
    if (name === 'exit') throw new Exit(Number(first === '' ? status : first) & 255);
    if (name === 'kill' && /^-(9|KILL)$/.test(first) && second === String(PID)) throw new Exit(KILLED);
    const interrupted = new AbortController();
    io.onInterrupt = () => interrupted.abort();
    try {
      status = await run(context, words, AbortSignal.any([io.signal, interrupted.signal]), toStderr);
    } catch (thrown) {
      if (thrown instanceof Exit || !interrupted.signal.aborted) throw thrown;
      status = INTERRUPTED;
    } finally {
      io.onInterrupt = undefined;
    }
  }
  return status;
}

interface Simple {
  words: string[];
  toStderr: boolean;
}

const token = /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|(;|\n)|([ \t]+)|([^\s;'"\\]+)/gsu;
const variable = /\$(?:([A-Za-z_]\w*|[?$])|\{([A-Za-z_]\w*)\})/g;

/** Lazy: a word can depend on the previous command's result. */
export function* parse(text: string, variables: Record<string, string | (() => string)>): Generator<Simple> {
  const filled = (part: string): string =>
    part.replace(variable, (_whole, bare: string | undefined, braced: string | undefined) => {
      const value = variables[bare ?? braced ?? ''];
      return typeof value === 'function' ? value() : (value ?? '');
    });
  let words: string[] = [];
  let word: string | undefined;
  const endWord = (): void => {
    if (word !== undefined) words.push(word);
    word = undefined;
  };
  const endCommand = (): Simple => {
    endWord();
    const toStderr = words.some((one) => one === '>&2' || one === '1>&2');
    const simple = { words: words.filter((one) => one !== '>&2' && one !== '1>&2'), toStderr };
    words = [];
    return simple;
  };
  for (const [, single, double, escaped, end, space, plain] of text.matchAll(token)) {
    if (end !== undefined) {
      const simple = endCommand();
      if (simple.words.length > 0) yield simple;
    } else if (space !== undefined) endWord();
    else if (double !== undefined) word = (word ?? '') + filled(double).replace(/\\(["\\$])/g, '$1');
    else word = (word ?? '') + (single ?? escaped ?? filled(plain ?? ''));
  }
  const last = endCommand();
  if (last.words.length > 0) yield last;
}
