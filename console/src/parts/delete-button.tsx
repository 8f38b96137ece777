/** A bin that asks first. */
import { ActionIcon } from '@mantine/core';
import { IconTrash } from '@tabler/icons-react';
import { useState } from 'react';
import { useTexts } from '../texts/provider.tsx';
import { ConfirmModal } from './confirm-modal.tsx';

interface DeleteButtonProps {
  name: string;
  title: string;
  loses: string;
  keeps?: string;
  act: () => Promise<unknown>;
  onDone?: () => void;
}

export function DeleteButton({ name, title, loses, keeps, act, onDone }: DeleteButtonProps) {
  const { common } = useTexts();
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <ActionIcon aria-label={`${common.delete} ${name}`} title={common.delete} onClick={() => setAsking(true)}>
        <IconTrash size={15} />
      </ActionIcon>
      {isAsking && (
        <ConfirmModal
          title={title}
          loses={[loses]}
          keeps={keeps}
          verb={common.delete}
          act={act}
          onDone={onDone}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}
