import { expect, test } from 'vitest';
import { makeOutageLog } from '../../../src/control/kernel/outage-log.ts';
import { storageFull } from '../../../src/domain/kernel/refusal.ts';
import { noReserve } from '../../../src/store/db/space-reserve.ts';

test('failed writes to the database or a file on a reported full disk are lines at level debug, without a stack', () => {
  const lines: [level: string, facts: object][] = [];
  const write = (level: string) => (facts: object) => void lines.push([level, facts]);
  const log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const regions = { all: () => [] };
  let isFull = false;
  const outageLog = makeOutageLog(log, { regions, reserve: { ...noReserve, isFull: () => isFull } });
  const err = storageFull();
  outageLog.warn({ err, task: 'a' }, 'failed');
  isFull = true;
  outageLog.error({ err, task: 'b' }, 'failed');
  outageLog.error({ err: new Error('other') }, 'failed');
  outageLog.warn({ err: Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' }), task: 'c' }, 'failed');
  const reason = expect.stringContaining('is full');
  expect(lines.map(([level]) => level)).toEqual(['warn', 'debug', 'error', 'debug']);
  expect(lines[1]?.[1]).toEqual({ task: 'b', reason });
});
