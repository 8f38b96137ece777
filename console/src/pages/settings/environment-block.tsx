/** Environment variables of all instances of the account. */
import { Badge, Button, Checkbox, Group, Text, Textarea, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { DeleteButton } from '../../parts/delete-button.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import type { ShortColumn } from '../../parts/short-table.tsx';
import { StateWord } from '../../parts/state-word.tsx';
import { TabList } from '../../parts/tab-list.tsx';
import { useTexts } from '../../texts/provider.tsx';

type Variable = AnswerOf<'listEnvironment'>['variables'][number];

const environmentQuery = queryOptions({
  queryKey: ['environment'],
  queryFn: async () => (await api.listEnvironment()).variables,
  refetchOnMount: 'always',
});

export function EnvironmentBlock() {
  const { environment } = useTexts().settings;
  const queries = useQueryClient();
  const reload = (): void => void queries.invalidateQueries({ queryKey: environmentQuery.queryKey });
  const [editing, setEditing] = useState<Variable | 'new'>();
  const columns: ShortColumn<Variable>[] = [
    {
      key: 'name',
      title: environment.columns.name,
      cell: ({ name }) => (
        <Text span size="xs" ff="monospace">
          {name}
        </Text>
      ),
    },
    { key: 'value', title: environment.columns.value, cell: (row) => <Value variable={row} /> },
    {
      key: 'changed',
      title: environment.columns.changed,
      cell: ({ updatedAtUnixMs }) => <RelativeTime atMs={updatedAtUnixMs} />,
    },
    {
      key: 'act',
      title: '',
      align: 'right',
      cell: (row) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Button variant="default" aria-label={environment.changeOf(row.name)} onClick={() => setEditing(row)}>
            {environment.change}
          </Button>
          <DeleteButton
            name={row.name}
            title={environment.deleteTitle(row.name)}
            loses={environment.deleteLoses}
            act={() => api.deleteEnvironment({ names: [row.name] })}
            onDone={reload}
          />
        </Group>
      ),
    },
  ];
  return (
    <>
      <TabList
        label={environment.list}
        hint={environment.hint}
        add={environment.add}
        onAdd={() => setEditing('new')}
        query={useQuery(environmentQuery)}
        columns={columns}
        keyOf={({ name }) => name}
        empty={environment.empty}
      />
      {editing !== undefined && (
        <VariableModal
          variable={editing === 'new' ? undefined : editing}
          onDone={reload}
          onClose={() => setEditing(undefined)}
        />
      )}
    </>
  );
}

function Value({ variable: { value, isLost } }: { variable: Variable }) {
  const { environment } = useTexts().settings;
  if (isLost) return <StateWord kind="bad" word={environment.lost} why={environment.lostWhy} />;
  if (value === null)
    return (
      <Badge size="xs" variant="light" tt="none">
        {environment.secret}
      </Badge>
    );
  return (
    <Text span size="xs" ff="monospace" lineClamp={3}>
      {value}
    </Text>
  );
}

interface VariableModalProps {
  variable: Variable | undefined;
  onDone: () => void;
  onClose: () => void;
}

function VariableModal({ variable, onDone, onClose }: VariableModalProps) {
  const { settings, common } = useTexts();
  const { environment } = settings;
  const [name, setName] = useState(variable?.name ?? '');
  const [value, setValue] = useState(variable?.value ?? '');
  const [isSecret, setSecret] = useState(variable?.isSecret ?? false);
  return (
    <FormModal
      title={variable === undefined ? environment.add : environment.changeOf(variable.name)}
      verb={common.save}
      isReady={name.trim() !== ''}
      act={() => api.setEnvironment({ [isSecret ? 'secrets' : 'environment']: { [name.trim()]: value } })}
      onDone={({ runningInstances }) => {
        notifications.show({ message: environment.saved(runningInstances), color: 'berth' });
        onDone();
      }}
      onClose={onClose}
    >
      <TextInput
        label={environment.name}
        value={name}
        readOnly={variable !== undefined}
        placeholder="HF_TOKEN"
        spellCheck={false}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        data-autofocus={variable === undefined || undefined}
      />
      <Textarea
        label={environment.value}
        value={value}
        autosize
        minRows={1}
        maxRows={8}
        spellCheck={false}
        autoComplete="off"
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        onChange={({ currentTarget }) => setValue(currentTarget.value)}
        data-autofocus={variable !== undefined || undefined}
      />
      <Checkbox
        size="xs"
        label={environment.isSecret}
        checked={isSecret}
        onChange={({ currentTarget }) => setSecret(currentTarget.checked)}
      />
    </FormModal>
  );
}
