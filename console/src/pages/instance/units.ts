/** Values of charts with their units. */
import { useMemo } from 'react';
import { useFormat } from '../../app/format.ts';
import { useTexts } from '../../texts/provider.tsx';
import type { Unit } from './figures.ts';

const FRACTION = 100;
/** Memory is sold in GB of 1024 MB of 1024 KB. */
const MB = 1024 ** 2;
const GB = 1024 ** 3;

export function useUnits(): Record<Unit, (value: number) => string> {
  const { instance, common } = useTexts();
  const { figures } = instance;
  const { bytes, count, percent } = useFormat();
  return useMemo(
    () => ({
      cores: (value) => figures.cores(Math.round(value * FRACTION) / FRACTION),
      memory: (value) => (value > 0 && value < GB ? figures.mb(count(Math.round(value / MB))) : common.gb(value / GB)),
      bytesPerSecond: (value) => figures.perSecond(bytes(value)),
      percent: (value) => percent(value / FRACTION),
    }),
    [figures, common, bytes, count, percent],
  );
}
