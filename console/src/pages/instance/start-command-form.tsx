/** The script that runs at every start. */
import { Button, Group, Stack, Textarea } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import type { InstanceView } from './queries.ts';
import { SettingsCard } from './settings-card.tsx';
import { useAppliesAt, useChange } from './use-change.ts';

export function StartCommandForm({ view: { instance, startCommand } }: { view: InstanceView }) {
  const { instance: texts, common } = useTexts();
  const { settings } = texts;
  const [draft, setDraft] = useState<string | null>(null);
  const appliesAt = useAppliesAt();
  const save = useChange(
    (script: string) => api.updateInstance({ instanceId: idOf(instance), startCommand: script }),
    appliesAt,
  );
  return (
    <SettingsCard title={settings.startCommand} hint={settings.startCommandHint}>
      <Stack gap="sm" align="flex-start">
        <Textarea
          w="100%"
          autosize
          minRows={4}
          maxRows={18}
          spellCheck={false}
          aria-label={settings.startCommand}
          placeholder="#!/bin/bash"
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: 12.5 } }}
          value={draft ?? startCommand}
          onChange={({ currentTarget }) => setDraft(currentTarget.value)}
        />
        <Group gap="xs">
          <Button
            disabled={draft === null || draft === startCommand}
            loading={save.isPending}
            onClick={() => save.mutate(draft ?? '', { onSuccess: () => setDraft(null) })}
          >
            {common.save}
          </Button>
          {draft !== null && draft !== startCommand && (
            <Button variant="default" onClick={() => setDraft(null)}>
              {common.cancel}
            </Button>
          )}
        </Group>
      </Stack>
    </SettingsCard>
  );
}
