/** What follows when paid time, an off-peak window or spot capacity ends. */
import { Stack, Switch, Text } from '@mantine/core';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import type { InstanceView } from './queries.ts';
import { SettingsCard } from './settings-card.tsx';
import { useChange } from './use-change.ts';

export function RenewalForm({ view: { instance, billing } }: { view: InstanceView }) {
  const { instance: texts, launch } = useTexts();
  const { settings } = texts;
  const { moment } = useFormat();
  const { instanceBillingInfo, isSpotInstance } = instance.instanceSpecInfo;
  const mode = instanceBillingInfo.chargeMode;
  const isPaidAhead = mode !== 'perHour' && mode !== 'tidePerHour';
  const mayResume = mode === 'tidePerHour' || isSpotInstance;
  const save = useChange((over: { autoRenew?: boolean; resume?: boolean }) =>
    api.setBilling({ instanceId: idOf(instance), ...over }),
  );
  if (!isPaidAhead && !mayResume) return null;
  const endsMs = billing.paidTime?.endsAtUnixMs ?? null;
  return (
    <SettingsCard title={settings.renewal} hint={settings.renewalHint}>
      <Stack gap="sm">
        {endsMs !== null && <Text size="sm">{settings.paidUntil(moment(endsMs))}</Text>}
        {isPaidAhead && (
          <Switch
            label={launch.autoRenew}
            checked={billing.autoRenew}
            disabled={save.isPending}
            onChange={({ currentTarget }) => save.mutate({ autoRenew: currentTarget.checked })}
          />
        )}
        {mayResume && (
          <Switch
            label={isSpotInstance ? launch.resumeSpot : launch.resume}
            checked={billing.resume}
            disabled={save.isPending}
            onChange={({ currentTarget }) => save.mutate({ resume: currentTarget.checked })}
          />
        )}
      </Stack>
    </SettingsCard>
  );
}
