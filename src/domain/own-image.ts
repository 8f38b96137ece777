/** Images of accounts: had from a registry by name, or saved from an instance. Pure. */
import type { Instance } from './instance.ts';

/** `Saving` from its instance, `Ready`, `Failed` (with the reason), `Deleting` (no list shows it any more). */
export const ownImageStates = ['Saving', 'Ready', 'Failed', 'Deleting'] as const;
export type OwnImageState = (typeof ownImageStates)[number];

/** Why its root disk can't be saved as an image now, or null when it can: its container has to be there, and to stay. */
export function refusalOfSave({
  desired,
  everEnsured,
  observed: { status },
}: Pick<Instance, 'desired' | 'everEnsured' | 'observed'>): string | null {
  if (desired === 'archived') return `it is ${status === 'Archived' ? 'Archived' : 'being archived'}; start it first`;
  if (status === 'Running' || (status === 'Stopped' && everEnsured)) return null;
  return `it is ${status}; only one that is Running or Stopped, and has run before, can be saved`;
}
