/** GPUs that the account held in the month or on a day, and how busy they were. */
import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useFormat } from '../../app/format.ts';
import { useTexts } from '../../texts/provider.tsx';
import { sumOfGpuUse, type Day } from './month.ts';
import { FRESH_MS, gpuUseQuery } from './queries.ts';

interface GpuUseProps {
  month: string;
  timeZone: string;
  day: Day | undefined;
  isCurrent: boolean;
}

export function GpuUse({ month, timeZone, day, isCurrent }: GpuUseProps) {
  const { billing } = useTexts();
  const { hours, percent } = useFormat();
  const spans = useQuery({
    ...gpuUseQuery({ month, timeZone }),
    refetchInterval: isCurrent ? FRESH_MS : false,
  }).data;
  const { held, measured, busy } = sumOfGpuUse(spans ?? [], day);
  if (held === 0) return null;
  const parts = [
    billing.gpusHeld(hours(held)),
    measured === 0 ? billing.gpusNotMeasured : billing.gpusBusy(hours(busy), percent(busy / measured)),
    ...(measured > 0 && hours(measured) !== hours(held) ? [billing.gpusMeasured(hours(measured))] : []),
  ];
  return (
    <Text size="sm" mt="xs">
      {billing.gpus(parts)}
    </Text>
  );
}
