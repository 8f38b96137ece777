import { Group, PasswordInput, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { DeleteButton } from '../../parts/delete-button.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import type { ShortColumn } from '../../parts/short-table.tsx';
import { TabList } from '../../parts/tab-list.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { ImageTabProps } from './images-tab.tsx';
import { registriesQuery } from './queries.ts';

type Registry = AnswerOf<'listRegistries'>['registries'][number];

export function RegistriesTab({ isCreating, onCreating }: ImageTabProps) {
  const { registries } = useTexts().images;
  const columns: ShortColumn<Registry>[] = [
    { key: 'server', title: registries.columns.server, cell: ({ server }) => server },
    { key: 'username', title: registries.columns.username, cell: ({ username }) => username },
    { key: 'created', title: registries.columns.created, cell: ({ createdAt }) => <RelativeTime atMs={createdAt} /> },
    {
      key: 'act',
      title: '',
      align: 'right',
      cell: ({ id, server }) => (
        <Group justify="flex-end">
          <DeleteButton
            name={server}
            title={registries.deleteTitle(server)}
            loses={registries.deleteLoses}
            keeps={registries.deleteKeeps}
            act={() => api.deleteRegistry({ id })}
          />
        </Group>
      ),
    },
  ];
  return (
    <>
      <TabList
        label={registries.list}
        hint={registries.hint}
        add={registries.add}
        onAdd={() => onCreating(true)}
        query={useQuery(registriesQuery)}
        columns={columns}
        keyOf={({ id }) => id}
        empty={registries.empty}
      />
      {isCreating && <AddModal onClose={() => onCreating(false)} />}
    </>
  );
}

function AddModal({ onClose }: { onClose: () => void }) {
  const { registries } = useTexts().images;
  const [server, setServer] = useState('');
  const [username, setUsername] = useState('');
  const [secret, setSecret] = useState('');
  return (
    <FormModal
      title={registries.add}
      verb={registries.add}
      isReady={server.trim() !== '' && username.trim() !== '' && secret !== ''}
      act={() => api.createRegistry({ server: server.trim(), username: username.trim(), secret })}
      onClose={onClose}
    >
      <TextInput
        label={registries.server}
        description={registries.serverHint}
        value={server}
        spellCheck={false}
        onChange={({ currentTarget }) => setServer(currentTarget.value)}
        data-autofocus
      />
      <TextInput
        label={registries.username}
        value={username}
        autoComplete="off"
        onChange={({ currentTarget }) => setUsername(currentTarget.value)}
      />
      <PasswordInput
        label={registries.secret}
        description={registries.secretHint}
        value={secret}
        autoComplete="new-password"
        onChange={({ currentTarget }) => setSecret(currentTarget.value)}
      />
    </FormModal>
  );
}
