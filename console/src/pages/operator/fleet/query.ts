import { queryOptions } from '@tanstack/react-query';
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { api } from '../../../app/api.ts';

export type FleetRegion = AnswerOf<'fleet'>['regions'][number];
export type FleetGpu = FleetRegion['gpus'][number];

/** Load changes without events; each question is a record of the audit log. */
const FRESH_MS = 60_000;

export const fleetQuery = queryOptions({
  queryKey: ['fleet'],
  queryFn: () => api.fleet(),
  refetchInterval: FRESH_MS,
});
