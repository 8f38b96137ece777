import { describe, expect, test } from 'vitest';
import { msUntilDeleted, orphanStep, addWatchedTime, type OrphanPolicy } from '../../../src/domain/orphan.ts';

const reporting: OrphanPolicy = { action: 'report', retentionMs: 0 };

describe('what the policy does', () => {
  const orphan = { kind: 'instance', running: true, handling: 'policy', watchedMs: 50_000 } as const;
  const stop: OrphanPolicy = { action: 'stop', retentionMs: 100_000 };
  test.each([
    ['stops at once what runs', orphan, stop, 'halt'],
    ['leaves what was seen only once', { ...orphan, watchedMs: 0 }, { action: 'delete', retentionMs: 0 }, 'leave'],
    ['leaves what stands still until it was watched long enough', { ...orphan, running: false }, stop, 'leave'],
    ['deletes it then', { ...orphan, watchedMs: 100_000 }, stop, 'discard'],
    [
      'keeps what its operator had stopped',
      { ...orphan, handling: 'stop', running: false, watchedMs: 1e12 },
      stop,
      'leave',
    ],
    ['stops it again when it runs', { ...orphan, handling: 'stop', watchedMs: 1e12 }, reporting, 'halt'],
    ['deletes what its operator wants deleted', { ...orphan, handling: 'delete' }, reporting, 'discard'],
    ['touches nothing when it is to report', { ...orphan, watchedMs: 1e12 }, reporting, 'leave'],
    ['deletes at once when it is to delete', orphan, { action: 'delete', retentionMs: 1e9 }, 'discard'],
    ['removes a Docker that runs, as all it keeps is on a disk', { ...orphan, kind: 'docker' }, stop, 'discard'],
    ['leaves one when it is to report', { ...orphan, kind: 'docker', watchedMs: 1e12 }, reporting, 'leave'],
    ['has nothing to stop in a network', { ...orphan, kind: 'network' }, stop, 'leave'],
  ] as const)('%s', (_, one, policy, step) => {
    expect(orphanStep(one, policy)).toBe(step);
  });

  test('counts only the time in which it was watched, however the clock jumps', () => {
    const day = 24 * 3_600_000;
    const at = (watchedMs: number) => ({ watchedMs, lastSeenAtMs: 1_000_000 });
    expect(addWatchedTime(at(0), 1_000_000 + 30 * day)).toBe(60_000);
    expect(addWatchedTime(at(500), 1_000_000 - day)).toBe(501);
    expect(addWatchedTime(at(500), 1_025_000)).toBe(25_500);
    expect(msUntilDeleted({ ...orphan, watchedMs: 40_000 }, stop)).toBe(60_000);
    expect(msUntilDeleted(orphan, reporting)).toBeNull();
  });
});
