import { queryOptions } from '@tanstack/react-query';
import { api } from '../../app/api.ts';

export const secondFactorQuery = queryOptions({
  queryKey: ['secondFactor'],
  queryFn: () => api.getSecondFactor(),
  refetchOnMount: 'always',
});
