import { errorCode } from '../../domain/kernel/unknown-error.ts';

/** Refusal of a file operation. `text` is for the owner, and reveals nothing of the host. */
export class FileFault extends Error {
  readonly kind: 'badPath' | 'notFound' | 'wrongKind' | 'exists' | 'notEmpty' | 'full';
  constructor(kind: FileFault['kind'], text: string, cause?: unknown) {
    super(text, { cause });
    this.kind = kind;
  }
}

const FULL: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Converts an error of the host that the caller can correct; returns others unchanged. */
export function asFault(error: unknown, path: string): unknown {
  if (error instanceof FileFault) return error;
  const code = errorCode(error);
  if (FULL.has(code)) return new FileFault('full', 'the volume is full', error);
  switch (code) {
    case 'ENOENT':
      return new FileFault('notFound', `"${path}" does not exist`, error);
    case 'ENOTDIR':
    case 'EISDIR':
    case 'ELOOP':
      return new FileFault('wrongKind', `"${path}" was replaced by another kind of entry meanwhile`, error);
    default:
      return error;
  }
}

/** Returns null for a missing file; throws any other error. */
export function nullIfMissing(error: unknown): null {
  if (errorCode(error) === 'ENOENT') return null;
  throw error;
}
