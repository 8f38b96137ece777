import { expect, test } from 'vitest';
import {
  afterReport,
  newNotebook,
  notebookMessage,
  type NotebookServer,
} from '../../../src/domain/compute/notebook-state.ts';

const after = (...reports: string[]): NotebookServer | null => reports.reduce(afterReport, null);

test('follows the reports of the start script, and ignores what is none', () => {
  expect(after('starting')).toEqual(newNotebook);
  expect(after('starting', 'ready')).toMatchObject({ state: 'ready', endedAtMs: 0 });
  const failed = after('starting', 'failed 1 TraitError: Preferred directory not found');
  expect(failed).toMatchObject({ state: 'failed', exit: 1, text: 'TraitError: Preferred directory not found' });
  expect(afterReport(failed, 'ready')).toMatchObject({ state: 'ready' });
  const ended = after('starting', 'ready', 'ended 137 1764480000 2 Killed');
  expect(ended).toEqual({
    state: 'starting',
    exit: 137,
    text: 'Killed',
    endedAtMs: 1_764_480_000_000,
    endedKernels: 2,
  });
  expect(afterReport(ended, 'starting')).toEqual(ended);
  for (const other of ['ended', 'ended x', 'ended 137 176448000000000 2 x', 'failed', 'failed 1234 x', ''])
    expect(afterReport(ended, other)).toBe(ended);
});

test('says nothing while all is well, and else what happened and why', () => {
  expect(notebookMessage(null)).toBe('');
  expect(notebookMessage(after('ready'))).toBe('');
  expect(notebookMessage(after('failed 1 ValueError: certfile'))).toBe(
    'the notebook server does not start: it ended with code 1; last line of its log: ValueError: certfile',
  );
  const ended = after('ready', 'ended 137 1764480000 2 Killed');
  expect(notebookMessage(ended)).toBe(
    'the notebook server ended at 2025-11-30T05:20:00Z, and 2 kernels with it, with code 137 (it was killed); last line of its log: Killed',
  );
  expect(notebookMessage(afterReport(after('ended 0 1764480000 1'), 'ready'))).toBe(
    'the notebook server ended at 2025-11-30T05:20:00Z, and a kernel with it, with code 0; it runs again',
  );
});
