/** Scrollback: bounded, cut between sequences, and replayed without queries to the terminal. */
import { expect, test } from 'vitest';
import { makeScrollback, SCROLLBACK_BYTES } from '../../../src/control/compute/inside/terminals/scrollback.ts';

const bytes = (text: string): Buffer => Buffer.from(text);
const replayOf = (...texts: string[]): string => {
  const scrollback = makeScrollback();
  for (const text of texts) scrollback.add(bytes(text));
  return scrollback.replay().bytes.toString();
};

test('replays short output unchanged, in any pieces', () => {
  const text = 'one\r\n\x1b[1;31mred ⚓\x1b[0m\r\n\x1b]2;title\x07$ ';
  expect(replayOf(text)).toBe(text);
  for (let at = 1; at < text.length; at++) expect(replayOf(text.slice(0, at), text.slice(at))).toBe(text);
});

test('holds at most 256 KiB, starts at a line, and counts positions from the first byte', () => {
  const scrollback = makeScrollback();
  let written = '';
  for (let n = 0; n < 60_000; n++) {
    const line = `line ${n} of many\r\n`;
    written += line;
    scrollback.add(bytes(line));
    expect(scrollback.end - scrollback.start).toBeLessThanOrEqual(SCROLLBACK_BYTES);
  }
  expect(scrollback.end).toBe(written.length);
  const { bytes: replay, isAlternate } = scrollback.replay();
  expect(isAlternate).toBe(false);
  expect(replay.toString()).toBe(written.slice(scrollback.start));
  expect(replay.toString()).toMatch(/^line \d+ of many\r\n/);
  expect(replay.length).toBeGreaterThan(SCROLLBACK_BYTES / 2);
  expect(scrollback.since(scrollback.end - 6, 4).toString()).toBe('many');
});

test('cuts an overlong line between characters and sequences', () => {
  for (const piece of ['⚓', '\x1b[38;5;200mx', 'a\x1b]8;;http://example.org\x1b\\b']) {
    const scrollback = makeScrollback();
    for (let n = 0; n * piece.length < 2 * SCROLLBACK_BYTES; n++) scrollback.add(bytes(piece));
    const replay = scrollback.replay().bytes.toString();
    expect(replay).not.toContain('\ufffd');
    // Settings at the cut, then whole pieces.
    const rest = replay.replaceAll(piece, '').replaceAll('\x1b[38;5;200m', '');
    expect(rest).toMatch(/^[ax]?b?$/);
  }
});

const full = 'x'.repeat(1022) + '\r\n';
const fill = (): string[] => Array.from({ length: 300 }, () => full);

test('restores settings at the cut: alternate screen, modes, colors, region, title', () => {
  const setting =
    '\x1b[?1049h\x1b[?1h\x1b=\x1b[?25l\x1b[?2004h\x1b[?1006h\x1b[2;20r\x1b[4h\x1b(0\x1b[5 q\x1b]2;a ⚓\x07\x1b[1m\x1b[38;5;9m';
  const scrollback = makeScrollback();
  for (const text of [setting, ...fill()]) scrollback.add(bytes(text));
  const { bytes: replay, isAlternate } = scrollback.replay();
  expect(isAlternate).toBe(true);
  const before = replay.toString().split('x')[0] ?? '';
  for (const part of setting.split('\x1b')) expect(before).toContain(part);
  expect(before.indexOf('\x1b[?1049h'), 'the screen is selected first').toBe(0);
});

test('drops settings undone before the cut', () => {
  const undone = '\x1b[?1049h\x1b[?25l\x1b[31;1m\x1b[2;5r\x1b[?1049l\x1b[?25h\x1b[0m\x1b[r';
  const before = replayOf(undone, ...fill()).split('x')[0];
  expect(before).toBe('\x1b[?1049l\x1b[?25h');
  expect(replayOf('\x1b[?1049h\x1b[31m\x1bc', ...fill()).split('x')[0]).toBe('');
  expect(replayOf('\x1b[>1u\x1b[>5u\x1b[<u', ...fill()).split('x')[0]).toBe('\x1b[>1u');
});

test('removes queries, bells and clipboard access from replays, but no look-alikes', () => {
  const passing = [
    '\x1b[c',
    '\x1b[>c',
    '\x1b[0c',
    '\x1b[6n',
    '\x1b[?6n',
    '\x1b[5n',
    '\x1b[?2026$p',
    '\x1b[>q',
    '\x1b[?u',
    '\x1b[14t',
    '\x1b[18t',
    '\x1b]11;?\x07',
    '\x1b]10;?\x1b\\',
    '\x1b]4;1;?\x07',
    '\x1b]52;c;aGVsbG8=\x07',
    '\x1bP$qm\x1b\\',
    '\x1bP+q544e\x1b\\',
    '\x1bZ',
    '\x05',
    '\x07',
  ];
  for (const one of passing) expect(replayOf(`a${one}b`), JSON.stringify(one)).toBe('ab');
  const staying = [
    '\x1b[4m',
    '\x1b[2J',
    '\x1b[22;0t',
    '\x1b]11;rgb:00/00/00\x07',
    '\x1b[>4;2m',
    '\x1b[?25l',
    '\x1b[5 q',
  ];
  for (const one of staying) expect(replayOf(`a${one}b`), JSON.stringify(one)).toBe(`a${one}b`);
});

test('hides an unterminated string, within its bound', () => {
  const scrollback = makeScrollback();
  scrollback.add(bytes('\x1b]1337;File='));
  for (let n = 0; n < 2_000; n++) scrollback.add(bytes('QUJD'.repeat(256)));
  const { bytes: replay } = scrollback.replay();
  expect(replay.toString().startsWith('\x1b]QUJD')).toBe(true);
  expect(replay.length).toBeLessThanOrEqual(SCROLLBACK_BYTES + 10);
});

test('survives random bytes', () => {
  let seed = 7;
  const random = (): number => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31);
  const scrollback = makeScrollback();
  for (let n = 0; n < 400; n++) {
    scrollback.add(Buffer.from(Array.from({ length: random() % 4_000 }, () => (random() >> 8) % (n % 2 ? 256 : 96))));
    expect(scrollback.end - scrollback.start).toBeLessThanOrEqual(SCROLLBACK_BYTES);
  }
  expect(scrollback.replay().bytes.length).toBeLessThan(SCROLLBACK_BYTES + 4_096);
});
