/** Prices of storage in a region, now or from a later time. */
import { NumberInput, Text } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { CATALOG_STALE, type ManagedRegion } from './queries.ts';
import { StartFields, useStart } from './start-fields.tsx';

export const StorageKinds = ['filesystem', 'highspeedstorage', 'snapshot', 'keptDisk'] as const;

export function StoragePriceModal({ region, onClose }: { region: ManagedRegion; onClose: () => void }) {
  const { catalog } = useTexts();
  const { money } = useFormat();
  const [typed, setTyped] = useState<Record<(typeof StorageKinds)[number], number | string>>(region.storagePrices);
  const start = useStart();
  const { mode, fromUnixMs } = start;
  const isChanged = StorageKinds.some((kind) => Number(typed[kind]) !== region.storagePrices[kind]);
  return (
    <ActModal
      title={catalog.storageOf(region.name)}
      label={mode === 'now' ? catalog.setNow : catalog.schedule}
      isReady={isChanged && fromUnixMs !== null && StorageKinds.every((kind) => typed[kind] !== '')}
      stale={CATALOG_STALE}
      onClose={onClose}
      done={catalog.priceSet(catalog.storageOf(region.name))}
      act={() =>
        api.updateRegion({
          regionId: region.regionId,
          version: region.version,
          storagePrices: {
            filesystem: Number(typed.filesystem),
            highspeedstorage: Number(typed.highspeedstorage),
            snapshot: Number(typed.snapshot),
            keptDisk: Number(typed.keptDisk),
          },
          ...(typeof fromUnixMs === 'number' ? { fromUnixMs } : {}),
        })
      }
    >
      <StartFields start={start} />
      {StorageKinds.map((kind) => (
        <NumberInput
          key={kind}
          label={catalog.storage[kind]}
          description={catalog.before(money(region.storagePrices[kind]))}
          prefix="$"
          min={0}
          decimalScale={6}
          value={typed[kind]}
          onChange={(value) => setTyped((before) => ({ ...before, [kind]: value }))}
        />
      ))}
      <Text size="xs" c="dimmed">
        {catalog.storageHint}
      </Text>
    </ActModal>
  );
}
