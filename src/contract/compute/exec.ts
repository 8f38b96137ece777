/** Commands and terminals of an instance: two WebSocket protocols (docs/reference/terminal.md). */
import { z } from 'zod';
import { processSignals } from '../../domain/compute/process-signals.ts';
import {
  answer,
  emptyAnswer,
  flag,
  id,
  instanceIdBody,
  integer,
  integerOrNull,
  MAX_BODY_BYTES,
  request,
  text,
  unixMs,
  wholeNumber,
  WITHOUT_NUL,
} from '../common.ts';
import { instanceStreamCodes, jsonRoute, readRoute, socketRoute } from '../route.ts';

export const EXEC_PROTOCOL = 'berth.exec.v1';
export const TERMINAL_PROTOCOL = 'berth.terminal.v1';

/** First byte of a `berth.exec.v1` message. Bytes follow on 0 to 2, JSON on the others. */
export const channels = { stdin: 0, stdout: 1, stderr: 2, exit: 3, resize: 4, signal: 5 } as const;

/** Close codes beside those of RFC 6455 (1000 done, 1001 server stops, 1009 message too long). */
export const closeCodes = {
  badMessage: 4400,
  loginEnded: 4401,
  timedOut: 4408,
  /** Ended without a known exit code: the instance ended, or the terminal was closed. */
  ended: 4410,
  /** Connection lost; the command may still run. */
  lost: 4503,
} as const;

/** Bytes of one client message. */
export const MAX_MESSAGE_BYTES = 256 * 1024;
/** Bytes of each output stream in the answer of `POST /instance/exec`. */
export const MAX_OUTPUT_BYTES = 1024 * 1024;
const MAX_WORDS = 1_000;
const MAX_SECONDS = 600;
const DEFAULT_SECONDS = 60;
const MAX_SOCKET_SECONDS = 86_400;
const MAX_SIDE = 1_000;

/** Linux passes arguments as bytes up to the first NUL. */
const ARGUMENT = new RegExp(WITHOUT_NUL);
const NAME_AND_VALUE = '^[^=\\u0000]+=[^\\u0000]*$';
const VARIABLE = new RegExp(NAME_AND_VALUE);
const argument = z
  .string()
  .refine((value) => value.isWellFormed() && ARGUMENT.test(value), { error: 'must be UTF-8 text without NUL' })
  .meta({ maxLength: MAX_BODY_BYTES, pattern: WITHOUT_NUL });
const command = z
  .array(argument)
  .min(1)
  .max(MAX_WORDS)
  .refine(([program]) => program !== '', { error: 'must begin with the name of a program' })
  .describe('Program, searched in PATH, and its arguments; no shell interprets them');
const env = z
  .array(
    z
      .string()
      .refine((value) => value.isWellFormed() && VARIABLE.test(value), {
        error: 'must be NAME=value, UTF-8 text without NUL',
      })
      .meta({ maxLength: MAX_BODY_BYTES, pattern: NAME_AND_VALUE }),
  )
  .max(MAX_WORDS);
const seconds = (max: number) => wholeNumber(1, max);

const side = wholeNumber(1, MAX_SIDE);
export const terminalSize = z.object({ columns: side, rows: side });
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const terminalName = z.string().regex(NAME, {
  error: 'must be 1 to 64 letters, digits, dots, dashes or underscores, and begin with a letter or digit',
});

export const execRequest = request('ExecRequest', {
  instanceId: id.describe('Instance ID'),
  command,
  env: env.default([]).describe('Environment as NAME=value, in addition to the environment of the image'),
  stdin: z
    .string()
    .refine((value) => value.isWellFormed(), { error: 'must be text without lone surrogates' })
    .meta({ maxLength: MAX_BODY_BYTES })
    .default('')
    .describe('Standard input'),
  encoding: z
    .enum(['utf8', 'base64'])
    .default('utf8')
    .describe('Encoding of stdin, stdout and stderr; `utf8` shows invalid bytes as U+FFFD'),
  timeoutSeconds: seconds(MAX_SECONDS).default(DEFAULT_SECONDS).describe('Seconds before the command is killed'),
});

export const execAnswer = answer('ExecAnswer', {
  exitCode: integer('Exit code; 128 plus the signal if killed, 127 without the program, 126 if not executable'),
  stdout: text('Standard output'),
  stderr: text('Standard error'),
  stdoutCut: flag('Whether stdout was cut after 1 MiB'),
  stderrCut: flag('Whether stderr was cut after 1 MiB'),
  timedOut: flag('Whether the command was killed at `timeoutSeconds`'),
});

const columns = side.default(80).describe('Columns of the terminal');
const rows = side.default(24).describe('Rows of the terminal');

/** Query of the WebSocket; `command` and `env` may repeat. */
export const execQuery = z.object({
  instanceId: id.describe('Running instance of the caller'),
  command,
  env: env.default([]).describe('NAME=value. Proxies log queries: pass secrets on stdin'),
  terminal: z.boolean().default(false).describe('Allocate a terminal, which merges stderr into stdout'),
  columns,
  rows,
  timeoutSeconds: seconds(MAX_SOCKET_SECONDS)
    .describe('Seconds before the command is killed; by default never')
    .optional(),
});

export const terminalQuery = z.object({
  instanceId: id.describe('Running instance of the caller'),
  terminal: terminalName.default('main').describe('Name of the terminal, created if missing'),
  columns,
  rows,
});

export const exitMessage = z.object({ exitCode: z.number().int() });
export const signalMessage = z.object({ signal: z.enum(processSignals) });

/** Text messages to a viewer; binary messages are output. `attached` is the first. */
export const terminalServerMessage = z.discriminatedUnion('type', [
  z.object({ type: z.literal('attached'), terminal: z.string(), created: z.boolean(), ...terminalSize.shape }),
  z.object({ type: z.literal('size'), ...terminalSize.shape }),
  /** The viewer was too slow: it clears its screen, and the scrollback follows. */
  z.object({ type: z.literal('reset') }),
  /** The shell ended; the close follows. */
  z.object({ type: z.literal('exit'), exitCode: z.number().int() }),
]);

/** Text message of a viewer; binary messages are input. */
export const terminalClientMessage = z.object({ type: z.literal('resize'), ...terminalSize.shape });

const terminal = answer('Terminal', {
  terminal: text('Name of the terminal'),
  columns: integer('Columns'),
  rows: integer('Rows'),
  viewers: integer('Attached viewers'),
  createdAtUnixMs: unixMs('Creation time'),
  closesAtUnixMs: integerOrNull('Automatic close, Unix milliseconds; null while a viewer is attached'),
});
export const terminalListAnswer = answer('ListTerminalsAnswer', {
  terminals: z.array(terminal).describe('Open terminals'),
});

export const terminalBody = request('CloseTerminalRequest', {
  instanceId: id.describe('Instance ID'),
  terminal: terminalName.describe('Name of the terminal'),
});

const PAGES = 'A page needs the cookie and the origin of the API.';

export const execRoutes = {
  exec: jsonRoute('/instance/exec', execRequest, execAnswer, {
    summary:
      'Run a command inside a running instance and return its output; it is killed at its timeout or when the client disconnects',
  }),
  openExec: socketRoute('/instance/exec', execQuery, {
    protocol: EXEC_PROTOCOL,
    summary: 'Run a command inside an instance, with open streams (WebSocket)',
    details: `docs/reference/terminal.md describes the messages and close codes of \`${EXEC_PROTOCOL}\`. ${PAGES}`,
    successes: [{ status: 101, description: 'The command runs' }],
    codes: [...instanceStreamCodes, 'no_capacity'],
  }),
  listTerminals: readRoute('/instance/terminal/list', instanceIdBody, terminalListAnswer, {
    summary: 'List the open terminals of an instance',
  }),
  closeTerminal: jsonRoute('/instance/terminal/close', terminalBody, emptyAnswer, {
    summary: 'Close a terminal: kill its processes and disconnect its viewers',
  }),
} as const;

export const terminalRoutes = {
  openTerminal: socketRoute('/instance/terminal', terminalQuery, {
    protocol: TERMINAL_PROTOCOL,
    summary: 'Attach to a terminal, which outlives its viewers and may have several (WebSocket)',
    details: `docs/reference/terminal.md describes the messages and close codes of \`${TERMINAL_PROTOCOL}\`. ${PAGES}`,
    successes: [{ status: 101, description: 'The terminal is attached' }],
    codes: [...instanceStreamCodes, 'no_capacity'],
  }),
} as const;
