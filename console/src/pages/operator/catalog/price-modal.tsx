/** New prices of a type, from tomorrow, now or later, with what they change before they are set. */
import { Button, Group, NumberInput, Stack, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { Preview } from './preview.tsx';
import { differs, modesByUse, pricesOf, scaledBy, type TypedPrices } from './price-plan.ts';
import { CATALOG_STALE, type ManagedType } from './queries.ts';
import { StartFields, useStart } from './start-fields.tsx';

const TYPING_MS = 250;
const QUICK = [-10, 5, 10, 25] as const;

export function PriceModal({ type, onClose }: { type: ManagedType; onClose: () => void }) {
  const { catalog, launch } = useTexts();
  const { money } = useFormat();
  const [typed, setTyped] = useState<TypedPrices>(type.prices);
  const start = useStart();
  const { mode, fromUnixMs } = start;
  const prices = pricesOf(typed);
  const isChanged = prices !== null && differs(prices, type.prices);
  const body =
    isChanged && fromUnixMs !== null
      ? {
          instanceTypeId: type.instanceTypeId,
          version: type.version,
          prices,
          ...(fromUnixMs === undefined ? {} : { fromUnixMs }),
        }
      : null;
  const [asked] = useDebouncedValue(body, TYPING_MS);
  const preview = useQuery({
    queryKey: ['typePreview', asked],
    queryFn: () => (asked === null ? null : api.updateType({ ...asked, dryRun: true })),
    enabled: asked !== null,
    retry: false,
    gcTime: 0,
  });
  return (
    <ActModal
      title={catalog.priceOf(type.name)}
      label={mode === 'now' ? catalog.setNow : catalog.schedule}
      size="lg"
      isReady={body !== null && !preview.isError}
      stale={CATALOG_STALE}
      onClose={onClose}
      done={catalog.priceSet(type.name)}
      act={async () => {
        if (body !== null) await api.updateType(body);
      }}
    >
      <StartFields start={start} />
      <Stack gap={6}>
        {modesByUse.map((mode) => (
          <Group key={mode} gap="xs" wrap="nowrap" justify="space-between">
            <Text size="sm" flex={1} component="label" htmlFor={`price-${mode}`}>
              {launch.modes[mode].name}
            </Text>
            <Text size="sm" c="dimmed" ta="right">
              {money(type.prices[mode])} →
            </Text>
            <NumberInput
              id={`price-${mode}`}
              w={130}
              size="xs"
              prefix="$"
              min={0}
              decimalScale={6}
              {...(mode === 'perHour' ? { 'data-autofocus': true } : {})}
              value={typed[mode]}
              onChange={(value) => setTyped((before) => ({ ...before, [mode]: value }))}
            />
          </Group>
        ))}
      </Stack>
      <Group gap={4}>
        <Text size="xs" c="dimmed">
          {catalog.allBy}
        </Text>
        {QUICK.map((percent) => (
          <Button key={percent} variant="default" onClick={() => setTyped(scaledBy(type.prices, percent))}>
            {catalog.percent(percent)}
          </Button>
        ))}
      </Group>
      <Preview isWaiting={body === null} preview={preview}>
        {catalog.priceHint}
      </Preview>
    </ActModal>
  );
}
