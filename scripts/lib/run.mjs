/** Starts other programs: with captured output, in the foreground, or in place of this process. */
import { spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Root of the repository. */
export const root = path.resolve(fileURLToPath(new URL('../..', import.meta.url)));

/**
 * A problem that the user must fix before the command can go on. Only its message is shown, no
 * stack.
 */
export class Unready extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = 'Unready';
  }
}

/** @param {string} line */
export function say(line) {
  process.stdout.write(`${line}\n`);
}

/**
 * Runs the body of a command: an `Unready` becomes one plain line and exit code 1, anything else is
 * a bug and shows its stack.
 * @param {() => Promise<number | void>} body answers the exit code
 */
export async function runCommand(body) {
  try {
    process.exitCode = (await body()) ?? 0;
  } catch (error) {
    process.exitCode = 1;
    process.stderr.write(
      `${error instanceof Unready ? error.message : error instanceof Error ? error.stack : String(error)}\n`,
    );
  }
}

/** @param {number} startedAt milliseconds of `performance.now()` */
export function secondsSince(startedAt) {
  return `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
}

/**
 * `PATH` for what we start: the system folders too, because a login shell of an ordinary user (or
 * of cron) leaves out the `sbin` ones, where dockerd finds iptables.
 * @param {NodeJS.ProcessEnv} env
 */
export function searchPath(env) {
  const folders = (env['PATH'] ?? '').split(path.delimiter).filter((folder) => folder !== '');
  for (const folder of ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']) {
    if (!folders.includes(folder)) folders.push(folder);
  }
  return folders;
}

/**
 * Where a program is, or undefined. Looks at files only: no process is started, so that asking
 * costs nothing.
 * @param {string} name
 * @param {string[]} [folders]
 */
export function findProgram(name, folders = searchPath(process.env)) {
  for (const folder of folders) {
    const file = path.join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      if (statSync(file).isFile()) return file;
    } catch {
      // not in this folder
    }
  }
  return undefined;
}

/**
 * @typedef {object} Ended
 * @property {number} code 127 when the program could not be started, 128 + n after signal n
 * @property {NodeJS.Signals | null} signal
 * @property {string} output both streams, in the order they came
 */

/**
 * Runs a program to its end and keeps what it said.
 * @param {{ command: string, args: string[], cwd?: string, env?: NodeJS.ProcessEnv }} what
 * @returns {Promise<Ended>}
 */
export function capture({ command, args, cwd = root, env = process.env }) {
  return new Promise((resolve) => {
    let output = '';
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const keep = (/** @type {Buffer} */ chunk) => {
      output += chunk.toString();
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', (error) => resolve({ code: 127, signal: null, output: error.message }));
    child.on('close', (code, signal) => resolve({ code: exitCode(code, signal), signal, output }));
  });
}

/**
 * Runs a program in front of the person: it has the terminal, our signals reach it, its end is the
 * answer.
 * @param {{ command: string, args: string[], cwd?: string, env?: NodeJS.ProcessEnv }} what
 * @returns {Promise<{ code: number, signal: NodeJS.Signals | null }>}
 */
export function runInFront({ command, args, cwd = root, env = process.env }) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env, stdio: 'inherit' });
    const stopForwarding = forwardSignals(child);
    child.on('error', (error) => {
      stopForwarding();
      process.stderr.write(`${command} could not be started: ${error.message}\n`);
      resolve({ code: 127, signal: null });
    });
    child.on('close', (code, signal) => {
      stopForwarding();
      resolve({ code: exitCode(code, signal), signal });
    });
  });
}

/**
 * Ends this process by becoming another program: the same process id, so the parent signals
 * and waits for the program itself. Node before 22.15 can't do that: there the program is a child,
 * signals are passed on and so is its end.
 * @param {{ command: string, args: string[], env: NodeJS.ProcessEnv }} what
 * @returns {Promise<number>} the exit code, if it could only be a child
 */
export async function becomeProgram({ command, args, env }) {
  if (typeof process.execve === 'function' && process.platform !== 'win32') {
    // Node's warning that execve is experimental is noise to the user.
    process.removeAllListeners('warning');
    process.chdir(root);
    process.execve(command, [command, ...args], env);
  }
  const { code, signal } = await runInFront({ command, args, env });
  // Ends by the same signal, so that a supervisor sees "ended by SIGTERM" instead of an exit code.
  if (signal !== null) process.kill(process.pid, signal);
  return code;
}

/**
 * Passes the signals that ask us to end to the child, and lets the child decide when that is.
 * Ctrl-C and a closed terminal reach a child of the same terminal by themselves: passing them on
 * would make two of one, and a second SIGINT means "now".
 * @param {import('node:child_process').ChildProcess} child
 */
function forwardSignals(child) {
  const reachedByTerminal = process.stdin.isTTY === true;
  /** @type {[NodeJS.Signals, () => void][]} */
  const handlers = [];
  for (const signal of /** @type {NodeJS.Signals[]} */ (['SIGTERM', 'SIGINT', 'SIGHUP'])) {
    const handler = () => {
      if (signal === 'SIGTERM' || !reachedByTerminal) child.kill(signal);
    };
    process.on(signal, handler);
    handlers.push([signal, handler]);
  }
  return () => {
    for (const [signal, handler] of handlers) process.off(signal, handler);
  };
}

/**
 * @param {number | null} code
 * @param {NodeJS.Signals | null} signal
 */
function exitCode(code, signal) {
  return signal === null ? (code ?? 1) : 128 + (os.constants.signals[signal] ?? 0);
}
