import { describe, expect, test } from 'vitest';
import { msUntilDeleted, orphanStep, addWatchedTime, type OrphanPolicy } from '../../../src/domain/compute/orphan.ts';

const reporting: OrphanPolicy = { action: 'report', retentionMs: 0 };

describe('the orphan policy', () => {
  const orphan = { kind: 'instance', running: true, handling: 'policy', watchedMs: 50_000 } as const;
  const stop: OrphanPolicy = { action: 'stop', retentionMs: 100_000 };
  test.each([
    ['stops a running orphan at once', orphan, stop, 'halt'],
    [
      'leaves an orphan that was observed only once',
      { ...orphan, watchedMs: 0 },
      { action: 'delete', retentionMs: 0 },
      'leave',
    ],
    ['leaves a stopped orphan until the watch period is over', { ...orphan, running: false }, stop, 'leave'],
    ['deletes a stopped orphan after the watch period', { ...orphan, watchedMs: 100_000 }, stop, 'discard'],
    [
      'keeps an orphan that the operator stopped',
      { ...orphan, handling: 'stop', running: false, watchedMs: 1e12 },
      stop,
      'leave',
    ],
    ['stops that orphan again when it runs', { ...orphan, handling: 'stop', watchedMs: 1e12 }, reporting, 'halt'],
    ["deletes an orphan at the operator's request", { ...orphan, handling: 'delete' }, reporting, 'discard'],
    ['leaves everything when the policy only reports', { ...orphan, watchedMs: 1e12 }, reporting, 'leave'],
    ['deletes at once when the policy deletes', orphan, { action: 'delete', retentionMs: 1e9 }, 'discard'],
    ['deletes a running Docker sidecar, whose data is on a disk', { ...orphan, kind: 'docker' }, stop, 'discard'],
    [
      'leaves a Docker sidecar when the policy only reports',
      { ...orphan, kind: 'docker', watchedMs: 1e12 },
      reporting,
      'leave',
    ],
    ["leaves a network, which can't be stopped", { ...orphan, kind: 'network' }, stop, 'leave'],
  ] as const)('%s', (_, one, policy, step) => {
    expect(orphanStep(one, policy)).toBe(step);
  });

  test('counts only watched time, whatever the clock steps', () => {
    const day = 24 * 3_600_000;
    const at = (watchedMs: number) => ({ watchedMs, lastSeenAtMs: 1_000_000 });
    expect(addWatchedTime(at(0), 1_000_000 + 30 * day)).toBe(60_000);
    expect(addWatchedTime(at(500), 1_000_000 - day)).toBe(501);
    expect(addWatchedTime(at(500), 1_025_000)).toBe(25_500);
    expect(msUntilDeleted({ ...orphan, watchedMs: 40_000 }, stop)).toBe(60_000);
    expect(msUntilDeleted(orphan, reporting)).toBeNull();
  });
});
