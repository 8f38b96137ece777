/** Values of charts with their units. */
import { useMemo } from 'react';
import { useFormat } from '../../app/format.ts';
import { useTexts } from '../../texts/provider.tsx';
import type { Unit } from './figures.ts';

const FRACTION = 100;

export function useUnits(): Record<Unit, (value: number) => string> {
  const { figures } = useTexts().instance;
  const { bytes, count, percent } = useFormat();
  return useMemo(
    () => ({
      cores: (value) => figures.cores(count(Math.round(value * FRACTION) / FRACTION)),
      bytes,
      bytesPerSecond: (value) => figures.perSecond(bytes(value)),
      percent: (value) => percent(value / FRACTION),
    }),
    [figures, bytes, count, percent],
  );
}
