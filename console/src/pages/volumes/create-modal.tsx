/** A new volume, prefilled. */
import { NativeSelect, NumberInput, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { volumeTypes } from '../../../../src/contract/statuses.ts';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { regionsQuery, volumesQuery } from '../../app/queries.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { freeName, priceOfVolume } from './volume.ts';

const FIRST_SIZE_GB = 10;

export function CreateModal({ onClose }: { onClose: () => void }) {
  const { volumes } = useTexts();
  const { form } = volumes;
  const regions = useQuery(regionsQuery).data ?? [];
  const known = useQuery(volumesQuery).data;
  const [typed, setTyped] = useState<string>();
  const [sizeGB, setSizeGB] = useState<number | string>(FIRST_SIZE_GB);
  const [regionId, setRegion] = useState<string>();
  const [wantedType, setType] = useState<(typeof volumeTypes)[number]>('filesystem');
  const region = regions.find((one) => one.regionId === regionId) ?? regions[0];
  const offered = volumeTypes.filter((type) => region?.volumeTypes.some((one) => one.type === type));
  const volumeType = offered.includes(wantedType) ? wantedType : (offered[0] ?? wantedType);
  const pool = region?.volumeTypes.find(({ type }) => type === volumeType);
  const name =
    typed ??
    (known === undefined
      ? ''
      : freeName(
          'data',
          known.map(({ volumeName }) => volumeName),
        ));
  return (
    <FormModal
      title={volumes.create}
      verb={volumes.form.create}
      isReady={name.trim() !== '' && Number(sizeGB) >= 1 && region !== undefined}
      act={() =>
        api.createVolume({ name: name.trim(), sizeGB: Number(sizeGB), region: region?.regionId ?? '', volumeType })
      }
      onDone={({ volume }) => notifications.show({ message: volumes.created(volume.volumeName), color: 'berth' })}
      onClose={onClose}
    >
      <TextInput
        label={form.name}
        value={name}
        maxLength={64}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        data-autofocus
      />
      {regions.length > 1 && (
        <NativeSelect
          size="sm"
          label={form.region}
          value={region?.regionId}
          onChange={({ currentTarget }) => setRegion(currentTarget.value)}
          data={regions.map((one) => ({ value: one.regionId, label: one.name }))}
        />
      )}
      {offered.length > 1 && (
        <NativeSelect
          size="sm"
          label={form.type}
          value={volumeType}
          onChange={({ currentTarget }) =>
            setType(volumeTypes.find((one) => one === currentTarget.value) ?? volumeType)
          }
          data={offered.map((value) => ({ value, label: volumes.types(value) }))}
        />
      )}
      <SizeField
        label={form.size}
        value={sizeGB}
        onChange={setSizeGB}
        {...{ region, volumeType, freeGB: pool?.freeGB, isSoft: pool?.sizeLimit === 'soft' }}
      />
    </FormModal>
  );
}

interface SizeFieldProps {
  label: string;
  value: number | string;
  onChange: (value: number | string) => void;
  min?: number;
  region: Parameters<typeof priceOfVolume>[0] | undefined;
  volumeType: string;
  freeGB?: number;
  isSoft?: boolean;
}

/** A size with its price, and what the pool has left. */
export function SizeField({ label, value, onChange, min = 1, region, volumeType, freeGB, isSoft }: SizeFieldProps) {
  const { volumes } = useTexts();
  const { money, size } = useFormat();
  const price = region && priceOfVolume(region, { volumeType, sizeGB: Number(value) });
  return (
    <div>
      <NumberInput
        size="sm"
        label={label}
        value={value}
        min={min}
        max={100_000}
        allowDecimal={false}
        suffix=" GB"
        onChange={onChange}
      />
      <Text size="xs" c="dimmed" mt={4} aria-live="polite">
        {[
          price === undefined ? '' : volumes.form.price(money(price.perMonth)),
          freeGB === undefined ? '' : volumes.form.free(size(freeGB)),
        ]
          .filter((part) => part !== '')
          .join(' · ')}
      </Text>
      {isSoft && (
        <Text size="xs" c="dimmed">
          {volumes.form.soft}
        </Text>
      )}
    </div>
  );
}
