/** ssh keys and certificate authorities that open the instances of the account. */
import { Group, Radio, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { DeleteButton } from '../../parts/delete-button.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import type { ShortColumn } from '../../parts/short-table.tsx';
import { TabList } from '../../parts/tab-list.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { TabProps } from './access-page.tsx';
import { sshKeysQuery } from './queries.ts';
import { nameOfKey } from './ssh-key.ts';

type SshKey = AnswerOf<'listSshKeys'>['sshKeys'][number];

export function SshTab({ isCreating, onCreating }: TabProps) {
  const { ssh } = useTexts().access;
  const queries = useQueryClient();
  const reload = (): void => void queries.invalidateQueries({ queryKey: sshKeysQuery.queryKey });
  const columns: ShortColumn<SshKey>[] = [
    { key: 'name', title: ssh.columns.name, cell: ({ name }) => name },
    {
      key: 'fingerprint',
      title: ssh.columns.fingerprint,
      cell: ({ fingerprint }) => (
        <Group gap={4} wrap="nowrap">
          <Text span size="xs" ff="monospace">
            {fingerprint}
          </Text>
          <CopyButton value={fingerprint} />
        </Group>
      ),
    },
    { key: 'kind', title: ssh.columns.kind, cell: ({ kind }) => ssh.kind(kind) },
    { key: 'created', title: ssh.columns.created, cell: ({ createdAt }) => <RelativeTime atMs={createdAt} /> },
    {
      key: 'act',
      title: '',
      align: 'right',
      cell: ({ id, name }) => (
        <Group justify="flex-end">
          <DeleteButton
            name={name}
            title={ssh.deleteTitle(name)}
            loses={ssh.deleteLoses}
            act={() => api.deleteSshKey({ id })}
            onDone={reload}
          />
        </Group>
      ),
    },
  ];
  return (
    <>
      <TabList
        label={ssh.list}
        hint={ssh.hint}
        add={ssh.add}
        onAdd={() => onCreating(true)}
        query={useQuery(sshKeysQuery)}
        columns={columns}
        keyOf={({ id }) => id}
        empty={ssh.empty}
      />
      {isCreating && <AddModal onDone={reload} onClose={() => onCreating(false)} />}
    </>
  );
}

function AddModal({ onDone, onClose }: { onDone: () => void; onClose: () => void }) {
  const { ssh } = useTexts().access;
  const [publicKey, setPublicKey] = useState('');
  const [typed, setTyped] = useState<string>();
  const [kind, setKind] = useState<'key' | 'ca'>('key');
  const name = typed ?? nameOfKey(publicKey);
  return (
    <FormModal
      title={ssh.add}
      verb={ssh.add}
      isReady={name.trim() !== '' && publicKey.trim() !== ''}
      act={() => api.createSshKey({ name: name.trim(), publicKey: publicKey.trim(), kind })}
      onDone={() => {
        notifications.show({ message: ssh.added(name.trim()), color: 'berth' });
        onDone();
      }}
      onClose={onClose}
    >
      <Textarea
        label={ssh.publicKey}
        description={ssh.publicKeyHint}
        placeholder="ssh-ed25519 AAAA… mia@laptop"
        value={publicKey}
        autosize
        minRows={3}
        maxRows={6}
        spellCheck={false}
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        onChange={({ currentTarget }) => setPublicKey(currentTarget.value)}
        data-autofocus
      />
      <TextInput
        label={ssh.name}
        description={ssh.nameHint}
        value={name}
        maxLength={100}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
      />
      <Radio.Group label={ssh.kindLabel} value={kind} onChange={(value) => setKind(value === 'ca' ? 'ca' : 'key')}>
        <Stack gap={10} mt={4}>
          <Radio size="xs" value="key" label={ssh.kinds.key} />
          <Radio size="xs" value="ca" label={ssh.kinds.ca} description={ssh.caHint} />
        </Stack>
      </Radio.Group>
    </FormModal>
  );
}
