import { NativeSelect, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { api } from '../../../app/api.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { typesQuery } from '../catalog/queries.ts';

export type Orphan = AnswerOf<'listStrays'>['strays'][number];

interface OrphanModalProps {
  orphan: Orphan;
  onClose: () => void;
}

const STALE = ['orphans', 'health', 'operatorInstances', 'operatorDisks', 'fleet'];

/** An adopted instance gets an owner and a type again, and costs from then on. */
export function AdoptModal({ orphan: { strayId, ownerName, subjectId, regionId }, onClose }: OrphanModalProps) {
  const { orphans } = useTexts();
  const types = (useQuery(typesQuery).data ?? []).filter((type) => type.regionId === regionId);
  const [username, setUsername] = useState(ownerName);
  const [name, setName] = useState('');
  const [typeId, setTypeId] = useState('');
  const chosen = typeId === '' ? (types[0]?.instanceTypeId ?? '') : typeId;
  return (
    <ActModal
      title={orphans.adoptTitle}
      label={orphans.adopt}
      isReady={username.trim() !== ''}
      stale={STALE}
      onClose={onClose}
      act={() =>
        api.handleStray({
          strayId,
          action: 'adopt',
          username: username.trim(),
          ...(chosen === '' ? {} : { instanceTypeId: chosen }),
          ...(name.trim() === '' ? {} : { name: name.trim() }),
        })
      }
    >
      <Text size="sm">{orphans.adoptHint}</Text>
      <TextInput
        data-autofocus
        label={orphans.columns.owner}
        value={username}
        onChange={({ currentTarget }) => setUsername(currentTarget.value)}
      />
      <NativeSelect
        label={orphans.type}
        value={chosen}
        onChange={({ currentTarget }) => setTypeId(currentTarget.value)}
        data={types.map((type) => ({ value: type.instanceTypeId, label: type.name }))}
      />
      <TextInput
        label={orphans.name}
        placeholder={subjectId}
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
    </ActModal>
  );
}

export function KeepModal({ orphan: { strayId, engineName }, onClose }: OrphanModalProps) {
  const { orphans } = useTexts();
  return (
    <ActModal
      title={orphans.keepTitle(engineName)}
      label={orphans.keep}
      stale={STALE}
      onClose={onClose}
      act={() => api.handleStray({ strayId, action: 'stop' })}
    >
      <Text size="sm">{orphans.keepHint}</Text>
    </ActModal>
  );
}

export function RemoveModal({ orphan: { strayId, engineName, kind }, onClose }: OrphanModalProps) {
  const { orphans } = useTexts();
  return (
    <ActModal
      title={orphans.removeTitle(engineName)}
      label={orphans.remove}
      isDestructive
      stale={STALE}
      onClose={onClose}
      act={() => api.handleStray({ strayId, action: 'delete' })}
    >
      <Text size="sm">{orphans.removeLoses[kind]}</Text>
    </ActModal>
  );
}
