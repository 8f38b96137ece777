/** Name and labels. */
import { TagsInput, TextInput } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { labelsOf, textsOf } from '../../parts/labels.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from '../instances/allowed-acts.ts';
import type { InstanceView } from './queries.ts';
import { SaveForm } from './save-form.tsx';
import { SettingsCard } from './settings-card.tsx';
import { useChange } from './use-change.ts';

const MOST_LABELS = 32;

export function NameForm({ view: { instance } }: { view: InstanceView }) {
  const { instance: texts } = useTexts();
  const { settings } = texts;
  const labels = instance.labels ?? {};
  const [name, setName] = useState(nameOf(instance));
  const [shown, setShown] = useState(textsOf(labels));
  const save = useChange(() =>
    api.updateInstance({
      instanceId: idOf(instance),
      ...(name.trim() === nameOf(instance) ? {} : { name: name.trim() }),
      ...(shown.join() === textsOf(labels).join() ? {} : { labels: labelsOf(shown.join('\n')) }),
    }),
  );
  const isSame = name.trim() === nameOf(instance) && shown.join() === textsOf(labels).join();
  return (
    <SettingsCard title={settings.name} hint={settings.nameHint}>
      <SaveForm save={save} isIdle={isSame || name.trim() === ''}>
        <TextInput
          w="100%"
          size="xs"
          label={settings.nameField}
          maxLength={128}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <TagsInput
          w="100%"
          size="xs"
          label={settings.labels}
          description={settings.labelsHint}
          value={shown}
          onChange={setShown}
          splitChars={[',', ' ']}
          maxTags={MOST_LABELS}
        />
      </SaveForm>
    </SettingsCard>
  );
}
