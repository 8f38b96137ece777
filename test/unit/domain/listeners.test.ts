import { expect, test } from 'vitest';
import { listenersOf } from '../../../src/domain/access/listeners.ts';

const row = (local: string, state = '0A'): string => `   0: ${local} 00000000:0000 ${state} 00000000:00000000 0 0 0`;
const V6 = '00000000000000000000000000000000';
const V6_LOOPBACK = '00000000000000000000000001000000';
const MAPPED_LOOPBACK = '0000000000000000FFFF00000100007F';

test.each<[string, string[], object[]]>([
  ['all addresses', [row('00000000:1F40')], [{ port: 8000, onLoopback: false }]],
  ['an address of its own', [row('020011AC:1F40')], [{ port: 8000, onLoopback: false }]],
  ['127.0.0.1', [row('0100007F:1F40')], [{ port: 8000, onLoopback: true }]],
  ['::1', [row(`${V6_LOOPBACK}:1F40`)], [{ port: 8000, onLoopback: true }]],
  ['127.0.0.1 by IPv6', [row(`${MAPPED_LOOPBACK}:1F40`)], [{ port: 8000, onLoopback: true }]],
  ['all addresses of IPv6', [row(`${V6}:1F40`)], [{ port: 8000, onLoopback: false }]],
  ['loopback and all', [row('0100007F:1F40'), row(`${V6}:1F40`)], [{ port: 8000, onLoopback: false }]],
  ['both loopbacks', [row('0100007F:1F40'), row(`${V6_LOOPBACK}:1F40`)], [{ port: 8000, onLoopback: true }]],
  ['a connection', [row('0100007F:1F40', '01')], []],
  ['ssh and the notebook', [row('00000000:0016'), row('00000000:22B8')], []],
  ['the name server of Docker', [row('0B00007F:1F40')], []],
  ['a loopback address that nobody dials', [row('3500007F:1F40')], []],
  ['such an address and loopback', [row('3500007F:1F40'), row('0100007F:1F40')], [{ port: 8000, onLoopback: true }]],
  ['a kernel of a notebook', [row('0100007F:9C40')], []],
])('finds who listens on %s', (_where, rows, found) => {
  expect(listenersOf(['  sl  local_address rem_address   st', ...rows, ''].join('\n'), true)).toEqual(found);
});

test('finds who listens on the port of the notebook where there is none', () => {
  expect(listenersOf([row('00000000:0016'), row('00000000:22B8')].join('\n'), false)).toEqual([
    { port: 8888, onLoopback: false },
  ]);
});
