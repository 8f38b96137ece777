/** Commands inside an instance, and terminals: what is asked, and the two WebSocket protocols (`docs/reference/terminal.md`). All of it ours. */
import { z } from 'zod';
import { id } from './common.ts';

export const EXEC_PATH = '/instance/exec';
export const TERMINAL_PATH = '/instance/terminal';

/** Subprotocols of the two WebSockets. */
export const EXEC_PROTOCOL = 'berth.exec.v1';
export const TERMINAL_PROTOCOL = 'berth.terminal.v1';

/** First byte of each message of `berth.exec.v1`; the rest of the message is bytes (0 to 2), or a JSON text. */
export const channels = { stdin: 0, stdout: 1, stderr: 2, exit: 3, resize: 4, signal: 5 } as const;

/** With which either WebSocket is closed, beside those of RFC 6455 (1000 done, 1001 the server stops, 1009 a message is too long). */
export const closeCodes = {
  /** What the client sent is no message of the protocol. */
  badMessage: 4400,
  loginEnded: 4401,
  timedOut: 4408,
  /** It ended, and nobody can tell with which exit code: the instance ended with it, or the terminal was closed. */
  ended: 4410,
  /** The way to it was lost; what runs may run on. */
  lost: 4503,
} as const;

/** Of one message from a client. */
export const MAX_MESSAGE_BYTES = 256 * 1024;
/** Of each stream in the answer of `POST /instance/exec`. */
export const MAX_OUTPUT_BYTES = 1024 * 1024;
const MAX_WORDS = 1_000;
const MAX_SECONDS = 600;
const DEFAULT_SECONDS = 60;
const MAX_SOCKET_SECONDS = 86_400;
const MAX_SIDE = 1_000;

/** What a kernel takes as an argument. */
const isArgument = (text: string): boolean => text.isWellFormed() && !text.includes('\0');
const argument = z.string().refine(isArgument, { error: 'must be UTF-8 text without NUL' });
const command = z
  .array(argument)
  .min(1)
  .max(MAX_WORDS)
  .refine(([program]) => program !== '', { error: 'must begin with the name of a program' });
const env = z
  .array(
    z.string().refine((text) => isArgument(text) && text.indexOf('=') > 0, {
      error: 'must be NAME=value, UTF-8 text without NUL',
    }),
  )
  .max(MAX_WORDS);
const seconds = (max: number) => z.number().int().min(1).max(max);

const side = z.number().int().min(1).max(MAX_SIDE);
export const terminalSize = z.object({ columns: side, rows: side });
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const terminalName = z.string().regex(NAME, {
  error: 'must be 1 to 64 letters, digits, dots, dashes or underscores, and begin with a letter or digit',
});

export const execRequest = z.object({
  instanceId: id,
  /** The program, looked for in PATH, and its arguments; no shell reads them. */
  command,
  /** `NAME=value`, beside what the image has. */
  env: env.default([]),
  stdin: z
    .string()
    .refine((text) => text.isWellFormed(), { error: 'must be text without lone surrogates' })
    .default(''),
  /** How `stdin`, `stdout` and `stderr` stand here: `utf8`, where what is none is shown as U+FFFD, or `base64`, to the byte. */
  encoding: z.enum(['utf8', 'base64']).default('utf8'),
  /** After which it is killed. */
  timeoutSeconds: seconds(MAX_SECONDS).default(DEFAULT_SECONDS),
});

export const execAnswer = z.strictObject({
  /** 128 and the signal's number when it was killed, 127 when there is no such program, 126 when it can't be run. */
  exitCode: z.number().int(),
  stdout: z.string(),
  stderr: z.string(),
  /** The stream was longer than 1 MiB, and this is its beginning. */
  stdoutCut: z.boolean(),
  stderrCut: z.boolean(),
  /** It was killed at `timeoutSeconds`. */
  timedOut: z.boolean(),
});

/** The query of `GET /instance/exec`: `command` and `env` may come again and again. */
export const execQuery = z.object({
  instanceId: id,
  command,
  env: env.default([]),
  /** With a terminal of `columns` by `rows`, and then all that it writes comes as stdout. */
  terminal: z.boolean().default(false),
  columns: side.default(80),
  rows: side.default(24),
  timeoutSeconds: seconds(MAX_SOCKET_SECONDS).optional(),
});

/** The query of `GET /instance/terminal`. */
export const terminalQuery = z.object({
  instanceId: id,
  terminal: terminalName.default('main'),
  columns: side.default(80),
  rows: side.default(24),
});

export const exitMessage = z.object({ exitCode: z.number().int() });
export const signals = ['HUP', 'INT', 'QUIT', 'TERM', 'USR1', 'USR2', 'KILL'] as const;
export const signalMessage = z.object({ signal: z.enum(signals) });

/** A text message to the viewer of a terminal; binary ones are what it shows. */
export const terminalServerMessage = z.discriminatedUnion('type', [
  /** The first: which one it is, how large now, and whether it was made for this viewer. */
  z.object({ type: z.literal('attached'), terminal: z.string(), created: z.boolean(), ...terminalSize.shape }),
  /** Somebody has sized it. */
  z.object({ type: z.literal('size'), ...terminalSize.shape }),
  /** What was shown is to be forgotten: the viewer was too slow, and the scrollback follows. */
  z.object({ type: z.literal('reset') }),
  /** The shell has ended; the close follows. */
  z.object({ type: z.literal('exit'), exitCode: z.number().int() }),
]);

/** A text message of a viewer; binary ones are what is typed. */
export const terminalClientMessage = z.object({ type: z.literal('resize'), ...terminalSize.shape });

export const terminalListAnswer = z.strictObject({
  terminals: z.array(
    z.strictObject({
      terminal: z.string(),
      columns: z.number().int(),
      rows: z.number().int(),
      viewers: z.number().int(),
      createdAtUnixMs: z.number().int(),
      /** When it is closed, if nobody comes until then; null while somebody is attached. */
      closesAtUnixMs: z.number().int().nullable(),
    }),
  ),
});

export const terminalBody = z.object({ instanceId: id, terminal: terminalName });
