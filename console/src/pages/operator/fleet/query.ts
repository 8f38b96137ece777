import { queryOptions } from '@tanstack/react-query';
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { api } from '../../../app/api.ts';

export type FleetRegion = AnswerOf<'fleet'>['regions'][number];
export type FleetGpu = FleetRegion['gpus'][number];

/** Load changes without events. */
const FRESH_MS = 15_000;

export const fleetQuery = queryOptions({
  queryKey: ['fleet'],
  queryFn: () => api.fleet(),
  refetchInterval: FRESH_MS,
});
