/** Environment variables of the instance, with those that it gets from elsewhere. */
import { ActionIcon, Badge, Button, Checkbox, Group, Stack, Table, Text, TextInput } from '@mantine/core';
import { IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import classes from './instance.module.css';
import { variablesQuery, type InstanceView } from './queries.ts';
import { SettingsCard } from './settings-card.tsx';
import { useChange } from './use-change.ts';

type Variable = AnswerOf<'listInstanceEnvironment'>['variables'][number];

export function EnvironmentForm({ view: { instance } }: { view: InstanceView }) {
  const { settings } = useTexts().instance;
  const instanceId = idOf(instance);
  const variables = useQuery(variablesQuery(instanceId)).data ?? [];
  const [showsAll, setShowsAll] = useState(false);
  const own = variables.filter(({ from }) => from !== 'berth');
  const shown = showsAll ? variables : own;
  const remove = useChange(
    (name: string) => api.deleteInstanceEnvironment({ instanceId, names: [name] }),
    () => settings.variableDeleted,
  );
  return (
    <SettingsCard title={settings.environment} hint={settings.environmentHint} className={classes.wide}>
      {shown.length > 0 && (
        <Table.ScrollContainer minWidth={300} mb="xs">
          <Table fz="sm" verticalSpacing={3}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{settings.variable}</Table.Th>
                <Table.Th>{settings.value}</Table.Th>
                <Table.Th>{settings.from}</Table.Th>
                <Table.Td />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {shown.map((variable) => (
                <VariableRow key={variable.name} variable={variable} onDelete={() => remove.mutate(variable.name)} />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {variables.length > own.length && (
        <Button variant="subtle" mb="xs" onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? settings.hideOwn : settings.showOwn(variables.length - own.length)}
        </Button>
      )}
      <NewVariable instanceId={instanceId} />
    </SettingsCard>
  );
}

function VariableRow({ variable, onDelete }: { variable: Variable; onDelete: () => void }) {
  const { settings } = useTexts().instance;
  const { name, value, isLost, from } = variable;
  return (
    <Table.Tr>
      <Table.Td ff="monospace" fz="xs">
        {name}
      </Table.Td>
      <Table.Td>
        {isLost ? (
          <Text size="xs" c="red">
            {settings.lost}
          </Text>
        ) : value === null ? (
          <Badge size="xs" variant="light" tt="none">
            {settings.secret}
          </Badge>
        ) : (
          <Text size="xs" ff="monospace" className={classes.value}>
            {value}
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        <Text size="xs" c="dimmed">
          {settings.sources[from] ?? from}
        </Text>
      </Table.Td>
      <Table.Td ta="right">
        {from === 'instance' && (
          <ActionIcon aria-label={settings.deleteVariable(name)} onClick={onDelete}>
            <IconTrash size={14} />
          </ActionIcon>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

function NewVariable({ instanceId }: { instanceId: string }) {
  const { settings } = useTexts().instance;
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const [isSecret, setSecret] = useState(false);
  const set = useChange(
    () => {
      const variables = { [name.trim()]: value };
      return api.setInstanceEnvironment({
        instanceId,
        ...(isSecret ? { secrets: variables } : { environment: variables }),
      });
    },
    ({ runningInstances }) => (runningInstances > 0 ? settings.setNow : settings.setNextStart),
  );
  const clear = (): void => {
    setName('');
    setValue('');
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        set.mutate(undefined, { onSuccess: clear });
      }}
    >
      <Group gap="xs" align="flex-end">
        <TextInput
          size="xs"
          w={180}
          label={settings.variable}
          placeholder="HF_HOME"
          spellCheck={false}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <TextInput
          size="xs"
          flex={1}
          miw={180}
          label={settings.value}
          type={isSecret ? 'password' : 'text'}
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={({ currentTarget }) => setValue(currentTarget.value)}
        />
        <Stack pb={7}>
          <Checkbox
            size="xs"
            label={settings.asSecret}
            checked={isSecret}
            onChange={({ currentTarget }) => setSecret(currentTarget.checked)}
          />
        </Stack>
        <Button type="submit" disabled={name.trim() === ''} loading={set.isPending}>
          {settings.set}
        </Button>
      </Group>
    </form>
  );
}
