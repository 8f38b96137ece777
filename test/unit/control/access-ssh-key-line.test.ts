/** The parser of public key lines, compared with the real `ssh-keygen` (openssh-client). */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { isLong } from '../../fixtures/level.ts';
import { expectLinear } from '../../fixtures/linear.ts';
import { needsProgram } from '../../fixtures/programs.ts';
import { fingerprintOf } from '../../../src/control/access/keys.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { parseSshPublicKey } from '../../../src/control/access/ssh-public-key.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-ssh-key-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const sshKeygen = (args: string[], input?: string): string =>
  execFileSync('ssh-keygen', args, { encoding: 'utf8', input: input ?? '', stdio: ['pipe', 'pipe', 'pipe'] });

let made = 0;
const makePair = (type: string, more: string[] = []): { file: string; line: string } => {
  const file = join(folder, `key-${++made}`);
  sshKeygen(['-q', '-t', type, ...more, '-N', '', '-C', `anna@laptop ${type}`, '-f', file]);
  return { file, line: readFileSync(`${file}.pub`, 'utf8') };
};

/** `256 SHA256:… comment (ED25519)` */
const listed = (line: string): { bits: number; fingerprint: string } => {
  const [bits, fingerprint = ''] = sshKeygen(['-l', '-f', '-'], line).split(' ');
  return { bits: Number(bits), fingerprint };
};

const packed = (...parts: (string | Uint8Array)[]): Buffer =>
  Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part);
      const length = Buffer.alloc(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
const queueEntries = (type: string, blob: Uint8Array, comment = 'x'): string =>
  `${type} ${Buffer.from(blob).toString('base64')} ${comment}`;
const blobOf = (line: string): Buffer => Buffer.from(line.split(' ')[1] ?? '', 'base64');

const refusalOf = (line: string): Refusal => {
  try {
    parseSshPublicKey(line);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error(`accepted: ${line.slice(0, 80)}`);
};

const ED25519_TYPE = 'ssh-ed25519';
const ed25519Blob = (...tail: (string | Uint8Array)[]) => packed(ED25519_TYPE, Buffer.alloc(32, 7), ...tail);

describe('accepted keys', () => {
  beforeEach((context) => needsProgram('ssh-keygen', context));

  test.each([
    ['ed25519', []],
    ['ecdsa', ['-b', '256']],
    ['ecdsa', ['-b', '384']],
    ['ecdsa', ['-b', '521']],
    ['rsa', ['-b', '3072']],
    ...(isLong ? [['rsa', ['-b', '4096']] satisfies [string, string[]]] : []),
  ])('%s %s: bits and fingerprint equal those of ssh-keygen', (type, more) => {
    const { line } = makePair(type, more);
    const key = parseSshPublicKey(line);
    expect({ bits: key.bits, fingerprint: fingerprintOf(key.blob) }).toEqual(listed(line));
    expect(key.comment).toBe(`anna@laptop ${type}`);
    expect(key.line).toBe(line.trim());
  });

  test('accepts security keys of ed25519 and ecdsa', () => {
    const ed = queueEntries(
      'sk-ssh-ed25519@openssh.com',
      packed('sk-ssh-ed25519@openssh.com', Buffer.alloc(32, 9), 'ssh:'),
    );
    const point = blobOf(makePair('ecdsa', ['-b', '256']).line).subarray(-65);
    const ecType = 'sk-ecdsa-sha2-nistp256@openssh.com';
    const ec = queueEntries(ecType, packed(ecType, 'nistp256', point, 'ssh:berth'));
    for (const line of [ed, ec]) {
      const key = parseSshPublicKey(line);
      expect({ bits: key.bits, fingerprint: fingerprintOf(key.blob) }).toEqual(listed(line));
    }
  });

  test('ignores surrounding space, tabs, the line end of a file and a missing comment', () => {
    const { line } = makePair('ed25519');
    const [type = '', base64 = ''] = line.split(' ');
    for (const text of [`\n  ${type} ${base64}\r\n`, `${type}\t${base64}`, `${type}   ${base64}   `]) {
      expect(parseSshPublicKey(text).line).toBe(`${type} ${base64}`);
    }
  });

  test('removes control and format characters from a comment, and truncates it', () => {
    const hostile = 'Анна 🔑 my private key \u001b[31m\u0000\u202eevil\u2028\ud800';
    const { comment, line } = parseSshPublicKey(queueEntries(ED25519_TYPE, ed25519Blob(), hostile));
    expect(comment).toBe('Анна 🔑 my private key [31mevil');
    for (const ending of ['\n', '\r', '\0']) expect(line).not.toContain(ending);
    expect(parseSshPublicKey(line).line).toBe(line);
    expect([...parseSshPublicKey(queueEntries(ED25519_TYPE, ed25519Blob(), 'é'.repeat(5000))).comment]).toHaveLength(
      200,
    );
  });
});

describe('refuses what ssh-keygen made:', () => {
  beforeEach((context) => needsProgram('ssh-keygen', context));

  test('a private key in any form, with a warning that does not repeat it', () => {
    const { file } = makePair('ed25519');
    const openssh = readFileSync(file, 'utf8');
    const pem = makePair('rsa', ['-b', '3072', '-m', 'PEM']).file;
    const body = openssh.split('\n')[1] ?? '';
    const putty = 'PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none';
    for (const text of [openssh, readFileSync(pem, 'utf8'), body, openssh.replaceAll('\n', ' '), putty]) {
      const { message, code } = refusalOf(text);
      expect(code).toBe('field_value');
      expect(message).toMatch(/PRIVATE key.*exposed.*new pair.*\.pub/);
      expect(message).not.toContain(body.slice(0, 30));
    }
  });

  test('a certificate', () => {
    const authority = makePair('ed25519');
    const { file } = makePair('ed25519');
    sshKeygen(['-q', '-s', authority.file, '-I', 'anna', '-n', 'root', `${file}.pub`]);
    expect(refusalOf(readFileSync(`${file}-cert.pub`, 'utf8')).message).toMatch(/is a certificate/);
  });

  test('short RSA, with the command for a better key', () => {
    expect(refusalOf(makePair('rsa', ['-b', '2048']).line).message).toMatch(
      /2048 bits; use at least 3072.*ssh-keygen -t ed25519/,
    );
  });

  test('public keys in other formats, with the way to convert them', () => {
    const { file } = makePair('rsa', ['-b', '3072']);
    for (const format of ['RFC4716', 'PKCS8', 'PEM']) {
      expect(refusalOf(sshKeygen(['-e', '-m', format, '-f', `${file}.pub`])).message).toMatch(/ssh-keygen -i -f/);
    }
  });

  test('options before the type', () => {
    const { line } = makePair('ed25519');
    for (const options of ['command="rm -rf /"', 'no-pty,permitopen="host:22"', 'restrict', 'environment="A=b c"']) {
      expect(refusalOf(`${options} ${line}`).message).toMatch(/options before its type/);
    }
  });

  test('several lines: a second key, or an option line smuggled in by a line end', () => {
    const { line } = makePair('ed25519');
    for (const text of [line + line, `${line.trim()}\rcommand="x" ${line}`, `${line}\n\n# x`]) {
      expect(refusalOf(text).message).toMatch(/several lines/);
    }
  });
});

describe('refuses', () => {
  const rsa = (exponent: Uint8Array, modulus: Uint8Array) =>
    queueEntries('ssh-rsa', packed('ssh-rsa', exponent, modulus));
  const e = Buffer.from([1, 0, 1]);
  const n = Buffer.concat([Buffer.from([0, 0x80]), Buffer.alloc(382, 0x55), Buffer.from([1])]);
  const ecdsa = (curve: string, point: Uint8Array) =>
    queueEntries('ecdsa-sha2-nistp256', packed('ecdsa-sha2-nistp256', curve, point));
  const sk = 'sk-ssh-ed25519@openssh.com';

  test('DSA, with the command for a better key', () => {
    const dsa = queueEntries('ssh-dss', packed('ssh-dss', n, n, n, n));
    expect(refusalOf(dsa).message).toMatch(/DSA.*ssh-keygen -t ed25519/);
  });

  test('no intact RSA key, the base of the table below', () => {
    expect(parseSshPublicKey(rsa(e, n)).bits).toBe(3072);
  });

  test.each([
    ['an empty text', '', /is empty/],
    ['a type alone', ED25519_TYPE, /nothing follows its type/],
    ['an unknown type', 'ssh-dilithium AAAA', /not an accepted type: ssh-ed25519/],
    ['text', 'hello', /not an accepted type/],
    ['no base64', `${ED25519_TYPE} !!!!`, /not base64/],
    ['base64url', `${ED25519_TYPE} AAAA-_==`, /not base64/],
    ['base64 without its padding', queueEntries(ED25519_TYPE, packed('x')).replaceAll('=', ''), /not base64/],
    ['loose last bits', queueEntries('ssh-ed25519', packed('x')).replace(/.= x$/, 'B= x'), /not base64/],
    ['a foreign type inside', queueEntries('ssh-rsa', ed25519Blob()), /has the type .*, but its blob has the type/],
    [
      'a short ed25519 key',
      queueEntries(ED25519_TYPE, packed(ED25519_TYPE, Buffer.alloc(31))),
      /31 bytes; it must have 32/,
    ],
    ['bytes after the end', queueEntries(ED25519_TYPE, ed25519Blob('x')), /5 bytes after the end/],
    [
      'one byte after the end',
      queueEntries(ED25519_TYPE, Buffer.concat([ed25519Blob(), Buffer.alloc(1)])),
      /1 bytes after/,
    ],
    ['a length beyond the end', queueEntries(ED25519_TYPE, Buffer.from('ffffffff', 'hex')), /cut short/],
    ['a cut blob', queueEntries(ED25519_TYPE, ed25519Blob().subarray(0, 30)), /cut short/],
    ['another curve inside', ecdsa('nistp384', Buffer.concat([Buffer.from([4]), Buffer.alloc(96, 1)])), /curve/],
    ['a compressed point', ecdsa('nistp256', Buffer.concat([Buffer.from([2]), Buffer.alloc(32, 1)])), /no point/],
    ['an empty point', ecdsa('nistp256', Buffer.alloc(0)), /no point/],
    ['RSA with exponent 1', rsa(Buffer.from([1]), n), /exponent/],
    ['RSA with an even exponent', rsa(Buffer.from([4]), n), /exponent/],
    ['RSA with a huge exponent', rsa(Buffer.alloc(9, 1), n), /exponent/],
    ['RSA with a negative modulus', rsa(e, n.subarray(1)), /no RSA modulus/],
    ['RSA with zeros before the modulus', rsa(e, Buffer.concat([Buffer.alloc(300), n])), /no RSA modulus/],
    ['RSA with an even modulus', rsa(e, Buffer.concat([n.subarray(0, -1), Buffer.from([2])])), /no RSA modulus/],
    ['RSA of 3071 bits', rsa(e, Buffer.concat([Buffer.from([0x40]), Buffer.alloc(383, 1)])), /3071 bits/],
    ['RSA of 20000 bits', rsa(e, Buffer.concat([Buffer.from([0x7f]), Buffer.alloc(2500, 1)])), /at most 16384/],
    ['a security key without application', queueEntries(sk, packed(sk, Buffer.alloc(32), '')), /application/],
    ['a security key with a line end in it', queueEntries(sk, packed(sk, Buffer.alloc(32), 'ssh:\n')), /application/],
  ])('%s', (_, line, words) => {
    const { code, message } = refusalOf(line);
    expect(code).toBe('field_value');
    expect(message).toMatch(/^field "publicKey" /);
    expect(message).toMatch(words);
  });

  test('a blob of any type truncated at any byte', () => {
    const point = Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 1)]);
    for (const line of [queueEntries(ED25519_TYPE, ed25519Blob()), ecdsa('nistp256', point), rsa(e, n)]) {
      const [type = ''] = line.split(' ');
      const blob = blobOf(line);
      for (let length = 0; length < blob.length; length++) {
        expect(refusalOf(queueEntries(type, blob.subarray(0, length))).code).toBe('field_value');
      }
    }
  });
});

test('reads a line of many spaces, or of many words END, in linear time', () => {
  expectLinear((length) => {
    for (const text of [`ssh-rsa${' '.repeat(length)}x`, 'END '.repeat(length)])
      expect(() => parseSshPublicKey(text)).toThrow(Refusal);
  });
});
