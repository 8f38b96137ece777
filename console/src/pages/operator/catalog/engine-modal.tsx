/** Adds a region, or changes the engine of one. The engine is asked before anything is stored. */
import {
  Alert,
  Button,
  Group,
  NativeSelect,
  PasswordInput,
  SimpleGrid,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { IconPlugConnected } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { engineKinds, firstSettingsOf, settingsOf, textOfSettings, type EngineKind } from './engine-settings.ts';
import { CATALOG_STALE, type ManagedRegion } from './queries.ts';

const factNames = ['name', 'value', 'location', 'sshAddress'] as const;

export function EngineModal({ region, onClose }: { region?: ManagedRegion; onClose: () => void }) {
  const { catalog, common } = useTexts();
  const [kind, setKind] = useState<EngineKind>('docker');
  const [facts, setFacts] = useState({ name: '', value: '', location: '', sshAddress: '' });
  const [text, setText] = useState(region?.settings ? textOfSettings(region.settings) : firstSettingsOf('docker'));
  const [credentials, setCredentials] = useState('');
  const settings = settingsOf(text);
  const secret = credentials === '' ? {} : { credentials };
  const isReady = settings !== null && (region !== undefined || factNames.every((fact) => facts[fact].trim() !== ''));
  const send = async (dryRun: boolean): Promise<{ said: string; warnings: readonly string[] }> => {
    if (settings === null) throw new Error('the settings are no JSON');
    if (region !== undefined) {
      const change = { regionId: region.regionId, version: region.version, settings, ...secret, dryRun };
      const { warnings, affected } = await api.updateRegion(change);
      return { said: catalog.affects(affected.accounts, affected.running, affected.stopped), warnings };
    }
    const { engine, warnings } = await api.createRegion({ ...facts, settings, ...secret, dryRun });
    const { version, capacity } = engine;
    return {
      said: catalog.engineAnswers(
        version,
        capacity.cpuMilli / 1_000,
        common.gb(capacity.memoryMiB / 1_024),
        capacity.gpus,
      ),
      warnings,
    };
  };
  const trial = useMutation({ mutationFn: () => send(true) });
  return (
    <ActModal
      title={region === undefined ? catalog.newRegion : catalog.engineTitle(region.name)}
      label={region === undefined ? catalog.addRegion : common.save}
      size="xl"
      isReady={isReady}
      stale={CATALOG_STALE}
      onClose={onClose}
      act={() => send(false)}
    >
      {region === undefined && (
        <>
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs">
            {factNames.map((fact) => (
              <TextInput
                key={fact}
                label={catalog.facts[fact]}
                value={facts[fact]}
                onChange={({ currentTarget: { value } }) => setFacts((before) => ({ ...before, [fact]: value }))}
              />
            ))}
          </SimpleGrid>
          <NativeSelect
            label={catalog.facts.engine}
            value={kind}
            onChange={({ currentTarget }) => {
              const next = engineKinds.find((one) => one === currentTarget.value) ?? 'docker';
              setKind(next);
              setText(firstSettingsOf(next));
            }}
            data={engineKinds.map((value) => ({ value, label: catalog.engineKinds[value] }))}
          />
        </>
      )}
      <Textarea
        label={catalog.settings}
        description={catalog.settingsHint}
        error={settings === null ? catalog.noJson : undefined}
        autosize
        minRows={8}
        maxRows={20}
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        spellCheck={false}
        value={text}
        onChange={({ currentTarget }) => setText(currentTarget.value)}
      />
      <PasswordInput
        label={catalog.facts.credentials}
        description={region?.hasCredentials ? catalog.credentialsStay : catalog.credentialsHint}
        value={credentials}
        onChange={({ currentTarget }) => setCredentials(currentTarget.value)}
      />
      <Group>
        <Button
          variant="default"
          leftSection={<IconPlugConnected size={14} />}
          loading={trial.isPending}
          disabled={!isReady}
          onClick={() => trial.mutate()}
        >
          {catalog.tryEngine}
        </Button>
      </Group>
      {trial.isError && <Trouble error={trial.error} />}
      {trial.data && (
        <Alert variant="light" color={trial.data.warnings.length > 0 ? 'yellow' : 'teal'} role="status">
          {[trial.data.said, ...trial.data.warnings].map((sentence) => (
            <Text key={sentence} size="sm">
              {sentence}
            </Text>
          ))}
        </Alert>
      )}
    </ActModal>
  );
}
