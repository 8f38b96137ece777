/** The shell that holds the end of a command back, run by the shells of this machine. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ChannelOutput } from '../../../src/kubernetes/channel-output.ts';
import { heldCommand, MarkedErrors } from '../../../src/kubernetes/held-command.ts';

const MARK = 'b0a7';
const written = `\x01${MARK}\x02`;

/** Ends the input when `endsInput` says so of the errors until then. */
async function outcome(
  command: readonly string[],
  { input = '', end = '', endsInput }: { input?: string; end?: string; endsInput: (errors: string) => boolean },
) {
  const [program = '', ...args] = heldCommand(MARK, command);
  const child = spawn(program, args, { detached: true });
  child.stdin.on('error', () => {});
  child.stdin.write(input);
  let [errors, hasEnded] = ['', false];
  const endOnce = (): void => {
    if (hasEnded || !endsInput(errors)) return;
    hasEnded = true;
    // A line releases as the end does: the input stays open until the shell has ended.
    if (end === '') child.stdin.end();
    else child.stdin.write(end);
  };
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
    endOnce();
  });
  endOnce();
  const [stdout, [code, signal]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return { code: Number(code), signal, stdout, errors };
}

const atOnce = { endsInput: () => true };
const afterMark = { endsInput: (errors: string) => errors.includes(written) };
const shell = (script: string): string[] => ['/bin/sh', '-c', script];

describe('a held command', () => {
  test('exits with the code of the command, at the end of its input and not before', async () => {
    for (const [command, code] of [
      [shell('true'), 0],
      [shell('exit 42'), 42],
      [shell('kill -9 $$'), 137],
      [shell('kill -TERM 0'), 143],
      [shell('kill -USR1 0'), 138],
    ] as const) {
      const ended = await outcome(command, { ...afterMark, input: 'left\n' });
      expect(ended, command[2]).toEqual({ code, signal: null, stdout: '', errors: written });
    }
  });

  test('gives the command its input, words and outputs, and its failure to start', async () => {
    expect(await outcome(['cat'], { ...atOnce, input: 'one\ntwo' })).toMatchObject({ code: 0, stdout: 'one\ntwo' });
    const both = await outcome(shell('echo "$0"; echo warned >&2').concat('a b'), afterMark);
    expect(both).toEqual({ code: 0, signal: null, stdout: 'a b\n', errors: `warned\n${written}` });
    const missing = await outcome(['no-such-command'], afterMark);
    expect(missing.code).toBe(127);
    expect(missing.errors).toContain('no-such-command');
    expect(missing.errors.endsWith(`\n${written}`)).toBe(true);
  });

  test('lets a command catch signals that end others', async () => {
    const caught = shell('trap "echo caught; exit 3" TERM; kill -TERM 0; sleep 5');
    expect(await outcome(caught, afterMark)).toMatchObject({ code: 3, stdout: 'caught\n' });
  });

  test('ends by a line with the mark, after input that nobody read', async () => {
    const released = await outcome(shell('exit 5'), { ...afterMark, input: 'left', end: `\n${MARK}\n` });
    expect(released.code).toBe(5);
  });
});

describe('errors with a mark', () => {
  test('are the same in any chunks, without the mark', async () => {
    const piece = fc.constantFrom('a', '\x01', '\x01b0', '\x01b0a7', '\x02', 'b0a7\x02', '\x01b0a7\x01');
    const pieces = fc.array(piece, { maxLength: 6 }).map((all) => all.join(''));
    await fc.assert(
      fc.asyncProperty(pieces, pieces, fc.array(fc.nat(20), { maxLength: 8 }), async (before, after, cuts) => {
        fc.pre(!`${before}${written}`.slice(0, -1).includes(written));
        const whole = Buffer.from(before + written + after);
        const output = new ChannelOutput(() => {});
        let marks = 0;
        const errors = new MarkedErrors(MARK, output, () => (marks += 1));
        const ends = [...cuts, whole.length].toSorted((a, b) => a - b);
        for (const [n, end] of ends.entries()) errors.put(whole.subarray(ends[n - 1] ?? 0, end));
        errors.finish();
        expect([await text(output), marks]).toEqual([before + after, 1]);
      }),
    );
  });

  test('without a mark are complete', async () => {
    const output = new ChannelOutput(() => {});
    const errors = new MarkedErrors(MARK, output, () => expect.unreachable());
    errors.put(Buffer.from('no mark \x01b0'));
    errors.finish();
    expect(await text(output)).toBe('no mark \x01b0');
  });
});
