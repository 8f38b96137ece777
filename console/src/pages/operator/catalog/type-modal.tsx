/**
 * A new instance type, or other name and size of one; prices of an offered one have their own
 * dialog.
 */
import { Grid, NativeSelect, NumberInput, Switch, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { Preview } from './preview.tsx';
import { modesByUse, pricesOf, type TypedPrices } from './price-plan.ts';
import { CATALOG_STALE, type ManagedRegion, type ManagedType } from './queries.ts';

const TYPING_MS = 300;
const sizes = ['cpuCores', 'memoryGB', 'gpuNum', 'rootDiskGB', 'dataDiskGB'] as const;
const firstSize = { cpuCores: 1, memoryGB: 4, gpuNum: 0, rootDiskGB: 20, dataDiskGB: 20 };
const noPrices: TypedPrices = { tidePerHour: '', perHour: '', perDay: '', perWeek: '', perMonth: '' };
const EASE = { perDay: 0.9 * 24, perWeek: 0.8 * 168, perMonth: 0.7 * 720 } as const;

interface TypeModalProps {
  regions: readonly ManagedRegion[];
  type?: ManagedType;
  onClose: () => void;
}

export function TypeModal({ regions, type, onClose }: TypeModalProps) {
  const { catalog, common, launch } = useTexts();
  const offered = regions.filter(({ retired }) => !retired);
  const [regionId, setRegionId] = useState(type?.regionId ?? offered[0]?.regionId ?? '');
  const [name, setName] = useState(type?.name ?? '');
  const [gpuName, setGpuName] = useState(type?.gpuName ?? '');
  const [cpuType, setCpuType] = useState(type?.cpuType ?? '');
  const [runtime, setRuntime] = useState(type?.runtime ?? '');
  const [isSpot, setSpot] = useState(false);
  const [size, setSize] = useState<Record<(typeof sizes)[number], number | string>>(type ?? firstSize);
  const [typed, setTyped] = useState<TypedPrices>(noPrices);
  const prices = pricesOf(typed);
  const numbers = {
    cpuCores: Number(size.cpuCores),
    memoryGB: Number(size.memoryGB),
    gpuNum: Number(size.gpuNum),
    rootDiskGB: Number(size.rootDiskGB),
    dataDiskGB: Number(size.dataDiskGB),
  };
  const fields = { name: name.trim(), ...numbers, gpuName: numbers.gpuNum === 0 ? '' : gpuName.trim(), runtime };
  const isNamed = fields.name !== '' && sizes.every((one) => size[one] !== '');
  const update = type && { instanceTypeId: type.instanceTypeId, version: type.version, ...fields, cpuType };
  const isReady = isNamed && (type !== undefined || prices !== null);
  const [asked] = useDebouncedValue(isReady ? update : undefined, TYPING_MS);
  const preview = useQuery({
    queryKey: ['typePreview', asked],
    queryFn: () => (asked === undefined ? null : api.updateType({ ...asked, dryRun: true })),
    enabled: asked !== undefined,
    retry: false,
    gcTime: 0,
  });
  /** The other modes follow an hour's price until they are typed. */
  const setPrice = (mode: keyof TypedPrices, value: number | string): void =>
    setTyped((before) => {
      const hour = Number(value);
      if (mode !== 'perHour' || value === '' || !Number.isFinite(hour)) return { ...before, [mode]: value };
      const round = (amount: number): number => Math.round(amount * 1e4) / 1e4;
      return {
        perHour: value,
        tidePerHour: round(hour / 2),
        perDay: round(hour * EASE.perDay),
        perWeek: round(hour * EASE.perWeek),
        perMonth: round(hour * EASE.perMonth),
      };
    });
  return (
    <ActModal
      title={type === undefined ? catalog.newType : catalog.editTitle(type.name)}
      label={type === undefined ? catalog.create : common.save}
      size="lg"
      isReady={isReady}
      stale={CATALOG_STALE}
      onClose={onClose}
      act={async () => {
        if (update !== undefined) await api.updateType(update);
        else if (prices !== null)
          await api.createType({ regionId, isSpot, ...fields, ...(cpuType === '' ? {} : { cpuType }), prices });
      }}
    >
      <Grid gap="xs">
        <Grid.Col span={{ base: 12, xs: 6 }}>
          <TextInput
            data-autofocus
            label={catalog.columns.name}
            maxLength={64}
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
          />
        </Grid.Col>
        {type === undefined && (
          <Grid.Col span={{ base: 12, xs: 6 }}>
            <NativeSelect
              label={catalog.columns.region}
              value={regionId}
              onChange={({ currentTarget }) => setRegionId(currentTarget.value)}
              data={offered.map((region) => ({ value: region.regionId, label: region.name }))}
            />
          </Grid.Col>
        )}
        {sizes.map((one) => (
          <Grid.Col key={one} span={{ base: 6, xs: 4 }}>
            <NumberInput
              label={catalog.sizes[one]}
              min={0}
              value={size[one]}
              onChange={(value) => setSize((before) => ({ ...before, [one]: value }))}
            />
          </Grid.Col>
        ))}
        <Grid.Col span={{ base: 6, xs: 4 }}>
          <TextInput
            label={catalog.gpuName}
            disabled={numbers.gpuNum === 0}
            value={gpuName}
            onChange={({ currentTarget }) => setGpuName(currentTarget.value)}
          />
        </Grid.Col>
        <Grid.Col span={{ base: 6, xs: 4 }}>
          <TextInput
            label={catalog.cpuType}
            placeholder={catalog.cpuTypeHint}
            value={cpuType}
            onChange={({ currentTarget }) => setCpuType(currentTarget.value)}
          />
        </Grid.Col>
        <Grid.Col span={{ base: 6, xs: 4 }}>
          <TextInput
            label={catalog.runtime}
            placeholder={catalog.runtimeHint}
            value={runtime}
            onChange={({ currentTarget }) => setRuntime(currentTarget.value)}
          />
        </Grid.Col>
        {type === undefined &&
          modesByUse.map((mode) => (
            <Grid.Col key={mode} span={{ base: 6, xs: 4 }}>
              <NumberInput
                label={launch.modes[mode].name}
                prefix="$"
                min={0}
                decimalScale={6}
                value={typed[mode]}
                onChange={(value) => setPrice(mode, value)}
              />
            </Grid.Col>
          ))}
      </Grid>
      {type === undefined ? (
        <Switch
          label={catalog.spotHint}
          checked={isSpot}
          onChange={({ currentTarget }) => setSpot(currentTarget.checked)}
        />
      ) : (
        <Preview isWaiting={!isReady} preview={preview}>
          {catalog.sizeHint}
        </Preview>
      )}
    </ActModal>
  );
}
