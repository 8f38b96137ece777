import type { Instance } from './instance.ts';

/** `Failed` has a reason; lists omit `Deleting`. */
export const ownImageStates = ['Saving', 'Ready', 'Failed', 'Deleting'] as const;
export type OwnImageState = (typeof ownImageStates)[number];

/** Returns why its root disk can't be saved, or null. */
export function refusalOfSave({
  desired,
  everEnsured,
  observed: { status },
}: Pick<Instance, 'desired' | 'everEnsured' | 'observed'>): string | null {
  if (desired === 'archived') return `it is ${status === 'Archived' ? 'Archived' : 'being archived'}; start it first`;
  if (status === 'Running' || (status === 'Stopped' && everEnsured)) return null;
  return `it is ${status}; only one that is Running or Stopped, and has run before, can be saved`;
}
