/** Whose requests start the instance while it is stopped. */
import { NativeSelect, NumberInput, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import { wakeQuery, type InstanceView, type Wake } from './queries.ts';
import { SaveForm } from './save-form.tsx';
import { SettingsCard } from './settings-card.tsx';
import { useChange } from './use-change.ts';

export function WakeForm({ view: { instance } }: { view: InstanceView }) {
  const { settings } = useTexts().instance;
  const wake = useQuery(wakeQuery(idOf(instance)));
  return (
    <SettingsCard title={settings.wake} hint={settings.wakeHint}>
      {wake.isPending && <Loading h={100} label={settings.wake} />}
      {wake.isError && <Trouble error={wake.error} onRetry={() => void wake.refetch()} />}
      {wake.data && <Fields key={JSON.stringify(wake.data)} wake={wake.data} />}
    </SettingsCard>
  );
}

const wakers = ['off', 'owner', 'visitors'] as const;

function Fields({ wake }: { wake: Wake }) {
  const { instance } = useTexts();
  const { settings } = instance;
  const [by, setBy] = useState(wake.by);
  const [perDay, setPerDay] = useState<number | string>(wake.visitorsPerDay);
  const visitorsPerDay = Number(perDay) || wake.visitorsPerDay;
  const isSame = by === wake.by && visitorsPerDay === wake.visitorsPerDay;
  const save = useChange(() => api.wake({ instanceId: wake.instanceId, by, visitorsPerDay }));
  return (
    <SaveForm save={save} isIdle={isSame}>
      <NativeSelect
        size="xs"
        label={settings.wakeBy}
        value={by}
        onChange={({ currentTarget: { value } }) => setBy(wakers.find((one) => one === value) ?? 'off')}
        data={wakers.map((value) => ({ value, label: settings.wakers[value] }))}
      />
      {by === 'visitors' && (
        <>
          <NumberInput
            size="xs"
            w={220}
            label={settings.visitorWakes}
            min={1}
            max={100}
            allowDecimal={false}
            value={perDay}
            onChange={setPerDay}
          />
          <Text size="xs" c="dimmed">
            {settings.visitorWakesUsed(wake.visitorsToday)}
          </Text>
        </>
      )}
    </SaveForm>
  );
}
