/** What the routes of commands and terminals make of a body, and of what control answers. */
import { MAX_OUTPUT_BYTES } from '../../contract/exec.ts';
import type { AnswerOf, BodyOf } from '../../contract/routes.ts';
import type { Commands, Terminals } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';

type Run = Commands['run'];

export function commandOf({ stdin, encoding, timeoutSeconds, ...wish }: BodyOf<'exec'>): Parameters<Run>[1] {
  return { ...wish, stdin: bytesOf(stdin, encoding), limitMs: timeoutSeconds * 1_000, keptBytes: MAX_OUTPUT_BYTES };
}

function bytesOf(text: string, encoding: BodyOf<'exec'>['encoding']): Buffer {
  const bytes = Buffer.from(text, encoding);
  // Node leaves out what is no base64, and would make other bytes of it.
  if (encoding === 'base64' && bytes.toString('base64') !== text)
    throw new Refusal('field_value', 'field "stdin" must be base64 with its padding, as the field "encoding" says');
  return bytes;
}

export function execAnswer(
  { encoding }: Pick<BodyOf<'exec'>, 'encoding'>,
  { exitCode, stdout, stderr, timedOut }: Awaited<ReturnType<Run>>,
): AnswerOf<'exec'> {
  return {
    exitCode,
    stdout: stdout.bytes.toString(encoding),
    stderr: stderr.bytes.toString(encoding),
    stdoutCut: stdout.cut,
    stderrCut: stderr.cut,
    timedOut,
  };
}

type Listed = Awaited<ReturnType<Terminals['list']>>[number];

export const listedTerminal = ({
  name,
  createdAtMs,
  closesAtMs,
  ...rest
}: Listed): AnswerOf<'listTerminals'>['terminals'][number] => ({
  terminal: name,
  ...rest,
  createdAtUnixMs: createdAtMs,
  closesAtUnixMs: closesAtMs,
});
