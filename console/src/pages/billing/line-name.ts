import { useQuery } from '@tanstack/react-query';
import { useCallback } from 'react';
import { useTexts } from '../../texts/provider.tsx';
import type { Line } from './month.ts';
import { typeNamesQuery } from './queries.ts';

/** Words of a line: groups come as meters, IDs of types, and values of labels. */
export function useLineName(by: string): (line: Pick<Line, 'name' | 'meter' | 'subjectId'>) => string {
  const { billing } = useTexts();
  const types = useQuery(typeNamesQuery).data;
  return useCallback(
    ({ name, meter, subjectId }) => {
      if (subjectId !== undefined)
        return meter === undefined || meter === 'compute' ? name : `${name} · ${billing.meterName(meter)}`;
      if (by === 'meter') return billing.meterName(name);
      if (by === 'type') return name === '' ? billing.withoutType : (types?.get(name) ?? name);
      return name === '' ? billing.withoutLabel : name;
    },
    [billing, by, types],
  );
}
