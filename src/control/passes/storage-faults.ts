/** What a storage's refusal of a deed comes to. */
import { StorageFault } from '../../storage/contract.ts';

/** When a disk that somebody still uses is looked at again. */
export const STILL_USED_MS = 1_000;

export const isBusy = (error: unknown): boolean => error instanceof StorageFault && error.kind === 'busy';

/** Why a disk can't be made as it was wished, however often it is tried; null for what may pass by itself. */
export function whyNever(error: unknown): { reason: string; message: string } | null {
  if (!(error instanceof StorageFault)) return null;
  const { kind, message } = error;
  switch (kind) {
    case 'full':
      return { reason: 'StorageFull', message };
    case 'notFound':
      return { reason: 'SourceGone', message };
    case 'unsupported':
      return { reason: 'Unsupported', message };
    case 'busy':
      return null;
    default:
      return kind satisfies never;
  }
}
