/** Another instance type of the region, from the next start or restart on. */
import { Alert, Button, Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { catalogQuery } from '../../app/queries.ts';
import { useTexts } from '../../texts/provider.tsx';
import { useAct } from '../instances/acts.ts';
import { idOf, mayAct } from '../instances/allowed-acts.ts';
import { offersOf, priceOf, type Offer } from '../launch/draft.ts';
import type { InstanceView } from './queries.ts';
import { SettingsCard } from './settings-card.tsx';
import { useAppliesAt, useChange } from './use-change.ts';

export function TypeForm({ view: { instance } }: { view: InstanceView }) {
  const { instance: texts, instances, launch, common } = useTexts();
  const { settings } = texts;
  const { money } = useFormat();
  const catalog = useQuery(catalogQuery).data;
  const { instanceTypeInfo: type, regionInfo, isSpotInstance, instanceBillingInfo } = instance.instanceSpecInfo;
  const mode = instanceBillingInfo.chargeMode;
  const offers = offersOf(catalog ?? []).filter(
    (offer) =>
      offer.regionId === regionInfo.regionId && offer.isSpot === isSpotInstance && priceOf(offer, mode) !== undefined,
  );
  const pending = instance.pendingChanges?.instanceType ?? null;
  const [chosen, setChosen] = useState('');
  const appliesAt = useAppliesAt();
  const save = useChange(
    (instanceTypeId: string) => api.updateInstance({ instanceId: idOf(instance), instanceTypeId }),
    appliesAt,
  );
  const act = useAct();
  const labelOf = (offer: Offer): string =>
    [
      offer.typeName,
      offer.gpus > 0 ? `${offer.gpus} × ${offer.gpuName}` : '',
      launch.cores(offer.cpuCores),
      common.gb(offer.memoryGB),
      `${money(priceOf(offer, mode) ?? 0)} ${launch.modes[mode].unit}`,
      offer.isInStock ? '' : launch.noStock,
    ]
      .filter((part) => part !== '')
      .join(' · ');
  return (
    <SettingsCard title={settings.type} hint={settings.typeHint}>
      <Stack gap="sm" align="flex-start">
        {pending !== null && (
          <Alert color="yellow" variant="light" py={6} w="100%">
            <Text size="sm">
              {settings.typePending(pending.instanceTypeName, `${money(pending.price)} ${launch.modes[mode].unit}`)}
            </Text>
            <Group gap="xs" mt={4}>
              {mayAct(instance, 'restart') && (
                <Button loading={act.isPending} onClick={() => act.mutate({ act: 'restart', instance })}>
                  {settings.restartNow}
                </Button>
              )}
              <Button variant="default" loading={save.isPending} onClick={() => save.mutate(type.instanceId)}>
                {settings.revoke}
              </Button>
            </Group>
          </Alert>
        )}
        <NativeSelect
          w="100%"
          size="xs"
          label={settings.otherType}
          value={chosen === '' ? (pending?.instanceTypeId ?? type.instanceId) : chosen}
          onChange={({ currentTarget }) => setChosen(currentTarget.value)}
          data={
            offers.length === 0
              ? [{ value: type.instanceId, label: type.instanceTypeName }]
              : offers.map((offer) => ({ value: offer.typeId, label: labelOf(offer) }))
          }
        />
        <Button
          disabled={chosen === '' || chosen === (pending?.instanceTypeId ?? type.instanceId)}
          loading={save.isPending}
          onClick={() => save.mutate(chosen, { onSuccess: () => setChosen('') })}
        >
          {settings.changeType}
        </Button>
        {mayAct(instance, 'restart') && (
          <Text size="xs" c="dimmed">
            {settings.restartHint(instances.acts.restart)}
          </Text>
        )}
      </Stack>
    </SettingsCard>
  );
}
