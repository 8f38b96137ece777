/** Pure parts of the ssh front: eviction, limits and command lines. */
import { checkSsh2, missingMembers } from '../../../src/edge/ssh/ssh2-inside.ts';
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { sessionExecRequest, mayBeSet, readPid } from '../../../src/edge/ssh/session-commands.ts';
import {
  makeUnauthenticatedConnections,
  connectionToClose,
  type UnauthenticatedConnection,
} from '../../../src/edge/ssh/unauthenticated.ts';

const limits = { perAddress: 3, perInstance: 5, total: 8 };
const unauthenticatedFrom = (instanceId: string, address: string): UnauthenticatedConnection => ({
  instanceId,
  address,
  close: () => {},
});

test('accepts each newcomer and closes the oldest connection of the largest group', () => {
  const a = Array.from({ length: 4 }, () => unauthenticatedFrom('one', 'a'));
  const [first, second] = a;
  expect(connectionToClose(a.slice(0, 3), unauthenticatedFrom('one', 'a'), limits)).toBeNull();
  expect(connectionToClose(a, a[3] ?? unauthenticatedFrom('', ''), limits)).toBe(first);
  // Three of one address and three others: the instance is full, and the newcomer stays.
  const others = ['b', 'c', 'owner'].map((address) => unauthenticatedFrom('one', address));
  const full = [...others.slice(0, 2), ...a.slice(1), ...others.slice(2)];
  expect(connectionToClose(full, others[2] ?? unauthenticatedFrom('', ''), limits)).toBe(second);
  // Applies to the total: a quiet instance does not pay for a busy one.
  const few = [
    unauthenticatedFrom('two', 'x'),
    ...Array.from({ length: 5 }, (_, n) => unauthenticatedFrom('one', `${n}`)),
  ];
  const last = [unauthenticatedFrom('three', 'y'), unauthenticatedFrom('two', 'z'), unauthenticatedFrom('two', 'w')];
  expect(connectionToClose([...few, ...last], last[2] ?? unauthenticatedFrom('', ''), limits)).toBe(few[1]);
});

test('closes a victim once, and forgets authenticated connections', () => {
  const cut: string[] = [];
  const unauthenticated = makeUnauthenticatedConnections({ perAddress: 2, perInstance: 9, total: 9 });
  const add = (name: string): (() => void) =>
    unauthenticated.add({ instanceId: 'one', address: 'a', close: () => void cut.push(name) });
  add('first');
  const known = add('second');
  add('third');
  expect(cut).toEqual(['first']);
  known();
  add('fourth');
  expect(cut).toEqual(['first']);
  add('fifth');
  expect(cut).toEqual(['first', 'third']);
});

test('splits the process id from the first output', () => {
  const read = (text: string) => {
    const reported = readPid(Buffer.from(text));
    return reported && { pid: reported.pid, rest: reported.rest.toString() };
  };
  expect(read('')).toBeNull();
  expect(read('123')).toBeNull();
  expect(read('123\nhello')).toEqual({ pid: 123, rest: 'hello' });
  expect(read('123\r\n$ ')).toEqual({ pid: 123, rest: '$ ' });
  expect(read('/bin/sh: not found\n')).toEqual({ pid: null, rest: '/bin/sh: not found\n' });
  expect(read('no newline at all')).toEqual({ pid: null, rest: 'no newline at all' });
});

test('sets client variables except those that choose programs', () => {
  for (const name of ['EDITOR', 'TERM', 'COLORTERM', 'VSCODE_AGENT_FOLDER', '_x'])
    expect(mayBeSet(name, 'v')).toBe(true);
  for (const name of [
    'PATH',
    'LD_PRELOAD',
    'LC_ALL',
    'LANG',
    'SSH_AUTH_SOCK',
    'BERTH_INSTANCE_ID',
    'BASH_ENV',
    'IFS',
    '',
    '1A',
    'A B',
    'A=B',
  ])
    expect(mayBeSet(name, 'v')).toBe(false);
  expect(mayBeSet('EDITOR', 'a\0b')).toBe(false);
});

const ran = (given: Parameters<typeof sessionExecRequest>[0]['begun'], env: Record<string, string> = {}): string => {
  const [program = '', ...args] = sessionExecRequest({ begun: given, env: {}, terminal: null }).command;
  return execFileSync(program, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
};

test('gives a command the home, shell and PATH of sshd, with the image’s PATH first', () => {
  const said = ran(
    { kind: 'command', command: 'printf "%s|" "$HOME" "$USER" "$LANG" "$PATH"; [ -x "$SHELL" ] && echo shell' },
    { PATH: '/image/bin:/usr/bin' },
  );
  const path =
    '/image/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin:/opt/conda/bin:/opt/berth/bin:/root/.local/bin';
  expect(said).toBe(`/root|root|C.UTF-8|${path}|shell\n`);
  expect(ran({ kind: 'command', command: 'echo $LANG' }, { PATH: '/bin', LANG: 'de_DE.UTF-8' })).toBe('de_DE.UTF-8\n');
});

test('finds the used private members of ssh2, and names missing ones', async () => {
  // Each check draws a host key: every key must be readable.
  for (let checks = 0; checks < 500; checks++) await checkSsh2();
  expect(missingMembers({ _sock: {}, _protocol: { _kexinit: undefined }, _chanMgr: { add() {} } })).toEqual([
    '_protocol._packetRW.read.read',
    '_protocol.openssh_authAgent',
    '_chanMgr.remove',
  ]);
});
