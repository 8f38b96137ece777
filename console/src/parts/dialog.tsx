/** A dialog that is there while it is open; its end gives the focus back to what opened it. */
import { Modal, type ModalProps } from '@mantine/core';
import { useEffect, useState } from 'react';
import { keepForDialog } from '../app/session.ts';

export function Dialog(props: Omit<ModalProps, 'opened'>) {
  // Before a field of the dialog takes it.
  const [opener] = useState(() => document.activeElement);
  useEffect(keepForDialog, []);
  useEffect(
    () => () => {
      if (opener instanceof HTMLElement) opener.focus();
    },
    [opener],
  );
  return <Modal opened {...props} />;
}
