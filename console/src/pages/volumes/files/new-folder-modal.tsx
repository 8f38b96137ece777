import { TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { FormModal } from '../../../parts/form-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { joined } from './paths.ts';
import { filesKey } from './upload-state.ts';

interface NewFolderModalProps {
  volumeId: string;
  path: string;
  onClose: () => void;
}

export function NewFolderModal({ volumeId, path, onClose }: NewFolderModalProps) {
  const { files } = useTexts();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  return (
    <FormModal
      title={files.newFolder}
      verb={files.create}
      isReady={name !== ''}
      act={() => api.createFolder({ id: volumeId, path: joined(path, name) })}
      onDone={() => void queries.invalidateQueries({ queryKey: filesKey(volumeId) })}
      onClose={onClose}
    >
      <TextInput
        label={files.folderName}
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        data-autofocus
      />
    </FormModal>
  );
}
