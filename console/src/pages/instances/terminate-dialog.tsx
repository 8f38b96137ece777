import { lazy, Suspense } from 'react';
import type { TerminateModalProps } from './terminate-modal.tsx';

const TerminateModal = lazy(() =>
  import('./terminate-modal.tsx').then(({ TerminateModal }) => ({ default: TerminateModal })),
);

/** Loaded when somebody wants to terminate: the first page of a visit does without. */
export const TerminateDialog = (props: TerminateModalProps) => (
  <Suspense>
    <TerminateModal {...props} />
  </Suspense>
);
