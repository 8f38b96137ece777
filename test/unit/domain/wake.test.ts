import { expect, test } from 'vitest';
import type { Diagnosis, InstanceStatus } from '../../../src/domain/compute/instance-states.ts';
import { refusalOfWake } from '../../../src/domain/compute/wake.ts';

test.each<[InstanceStatus, Diagnosis, string | null]>([
  ['Stopped', '', null],
  ['Archived', 'IdleStop', null],
  ['Stopped', 'BudgetReached', 'it was stopped with the reason BudgetReached'],
  ['StartingFailed', 'RootDiskLost', 'it is StartingFailed with the reason RootDiskLost'],
  ['Running', '', 'it is Running'],
])('refuses a start by a request of what is %s (%s) with the reason', (status, diagnosis, refusal) => {
  expect(refusalOfWake(status, diagnosis)).toBe(refusal);
});
