/** What all instances and accounts of the installation get: variables, limits, network policy. */
import { Button, Code, Group, PasswordInput, Stack, Switch, Text, TextInput, Title } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { ShortTable } from '../../../parts/short-table.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { EgressPanel } from '../egress-panel.tsx';
import { QuotaTable } from '../quota-table.tsx';
import { managedRegionsQuery } from './queries.ts';

const STALE = ['installationEnvironment'];

export function InstallationTab() {
  const { catalog, accounts } = useTexts();
  const regions = useQuery(managedRegionsQuery).data ?? [];
  return (
    <Stack gap="md">
      <Title order={2}>{catalog.environment}</Title>
      <Environment />
      <Title order={2}>{accounts.egress}</Title>
      {regions.map(({ regionId, name }) => (
        <Stack key={regionId} gap={4}>
          <Title order={3}>{name}</Title>
          <EgressPanel holder={{ regionId }} />
        </Stack>
      ))}
      <Title order={2}>{catalog.quotas}</Title>
      <Text size="sm" c="dimmed">
        {catalog.quotasHint}
      </Text>
      <QuotaTable />
    </Stack>
  );
}

function Environment() {
  const { catalog, common } = useTexts();
  const found = useQuery({ queryKey: STALE, queryFn: () => api.listInstallationEnvironment() });
  const [isAdding, setAdding] = useState(false);
  const [deleted, setDeleted] = useState<string>();
  if (found.isError) return <Trouble error={found.error} onRetry={() => void found.refetch()} />;
  if (found.data === undefined) return <Loading h={80} label={catalog.environment} />;
  const variables = found.data.variables.filter(({ from }) => from === 'installation');
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm" c="dimmed">
        {catalog.environmentHint}
      </Text>
      {variables.length > 0 && (
        <ShortTable
          label={catalog.environment}
          rows={variables}
          keyOf={({ name }) => name}
          columns={[
            { key: 'name', title: catalog.columns.name, cell: ({ name }) => <Code>{name}</Code> },
            {
              key: 'value',
              title: catalog.value,
              cell: ({ value, isLost }) => (isLost ? catalog.lostSecret : (value ?? catalog.secretSet)),
            },
            {
              key: 'acts',
              title: '',
              align: 'right',
              cell: ({ name }) => (
                <Button
                  variant="subtle"
                  color="red"
                  aria-label={`${common.delete} ${name}`}
                  onClick={() => setDeleted(name)}
                >
                  {common.delete}
                </Button>
              ),
            },
          ]}
        />
      )}
      <Button variant="default" leftSection={<IconPlus size={13} />} onClick={() => setAdding(true)}>
        {catalog.setVariable}
      </Button>
      {isAdding && <VariableModal onClose={() => setAdding(false)} />}
      {deleted !== undefined && (
        <ActModal
          title={catalog.deleteVariable(deleted)}
          label={common.delete}
          isDestructive
          stale={STALE}
          onClose={() => setDeleted(undefined)}
          act={() => api.deleteInstallationEnvironment({ names: [deleted] })}
        >
          <Text size="sm">{catalog.environmentChange}</Text>
        </ActModal>
      )}
    </Stack>
  );
}

function VariableModal({ onClose }: { onClose: () => void }) {
  const { catalog, common } = useTexts();
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const [isSecret, setSecret] = useState(false);
  const Input = isSecret ? PasswordInput : TextInput;
  return (
    <ActModal
      title={catalog.setVariable}
      label={common.save}
      isReady={name.trim() !== ''}
      stale={STALE}
      onClose={onClose}
      act={() =>
        api.setInstallationEnvironment(
          isSecret ? { secrets: { [name.trim()]: value } } : { environment: { [name.trim()]: value } },
        )
      }
    >
      <Group grow align="flex-end">
        <TextInput
          data-autofocus
          label={catalog.columns.name}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <Input label={catalog.value} value={value} onChange={({ currentTarget }) => setValue(currentTarget.value)} />
      </Group>
      <Switch
        label={catalog.isSecret}
        checked={isSecret}
        onChange={({ currentTarget }) => setSecret(currentTarget.checked)}
      />
      <Text size="xs" c="dimmed">
        {catalog.environmentChange}
      </Text>
    </ActModal>
  );
}
