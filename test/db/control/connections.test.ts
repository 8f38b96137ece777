import { expect, onTestFinished, test } from 'vitest';
import { lastingConnections, readConnections } from '../../../src/control/compute/auto-stop/tcp-connections.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';

const HEAD = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n';
const line = (local: string, remote: string, state: string): string =>
  `   0: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000     0        0 4026 1 0 100 0 0 10 0\n`;
const SSH = '020011AC:0016';
const ports = new Set([22, 8000]);
const portsOf = (table: string) => readConnections(table, ports)?.map(({ port }) => port);

test('finds only established connections to the given ports, over IPv4 and IPv6', () => {
  const table = [
    HEAD,
    line('00000000:0016', '00000000:0000', '0A'), // listening
    line(SSH, '010011AC:C350', '01'),
    line(SSH, '010011AC:C351', '06'), // closing
    line('020011AC:C352', '08080808:0016', '01'), // outgoing, to another host's sshd
    line('0100007F:1F40', '0100007F:D000', '01'),
    HEAD.replace('remote_address', 'rem_address'),
    line('0000000000000000FFFF0000020011AC:0016', '0000000000000000FFFF0000010011AC:C353', '01'),
  ].join('');
  expect(portsOf(table)).toEqual([22, 8000, 22]);
  expect(portsOf(HEAD)).toEqual([]);
});

test('returns null for an incomplete or malformed table', () => {
  for (const text of ['', 'cat: not found\n', HEAD + line(SSH, '010011AC:C350', '01').repeat(10_000)])
    expect(readConnections(text, ports)).toBeNull();
});

test('counts a connection present at both reads, which our own probes are not', async () => {
  const engine = makeSimulatedEngine({ installation: 'x' });
  onTestFinished(() => engine.stop());
  const session = line(SSH, '010011AC:C350', '01');
  const tables = [HEAD + session + line(SSH, '010011AC:C351', '01'), HEAD + session + line(SSH, '010011AC:C352', '01')];
  const exec = async () => ({ exitCode: 1, stdout: tables.shift() ?? '', stderr: "cat: can't open '/proc/net/tcp6'" });
  const inside = {
    engine: { ...engine, exec },
    id: instanceIdOf('0f8fad5b-d9cb-469f-a165-70867728950e'),
    time: realTime,
    signal: AbortSignal.timeout(120_000),
  };
  expect(await lastingConnections(inside, ports, 1)).toEqual([{ port: 22, ends: `${SSH} 010011AC:C350` }]);
  await expect(lastingConnections(inside, ports, 1)).rejects.toThrow(
    'the connections of the instance could not be read',
  );
});
