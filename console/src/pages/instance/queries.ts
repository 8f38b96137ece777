/** Questions of the page of an instance. Keys begin with what `live.ts` makes stale. */
import { queryOptions } from '@tanstack/react-query';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { totalOf } from './cost.ts';

export type InstanceView = AnswerOf<'getInstance'>;
export type Stage = InstanceView['timeline'][number];
export type Disk = InstanceView['disks'][number];
export type StopPolicy = AnswerOf<'ends'>;
export type Wake = AnswerOf<'wake'>;
export type Activity = AnswerOf<'activity'>;
export type Operation = AnswerOf<'listOperations'>['operations'][number];

/** Bytes of a stage come without events. */
const BYTES_MS = 1_000;
const QUEUE_MS = 10_000;
const MINUTE_MS = 60_000;
const SIGNALS_MS = 30_000;
const MOST = { currentPage: 1, pageSize: 500 };

/** How often a start under way is asked for; false: events are enough. */
export function refreshOf(timeline: readonly Stage[]): number | false {
  const current = timeline.find(({ endedAtUnixMs }) => endedAtUnixMs === null);
  if (current === undefined) return false;
  return current.name === 'Queued' ? QUEUE_MS : BYTES_MS;
}

export const instanceQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['instances', 'one', instanceId],
    queryFn: () => api.getInstance({ instanceId }),
    refetchInterval: ({ state: { data } }) => (data === undefined ? false : refreshOf(data.timeline)),
  });

export const endsQuery = (instanceId: string) =>
  queryOptions({ queryKey: ['instances', 'ends', instanceId], queryFn: () => api.ends({ instanceId }) });

export const wakeQuery = (instanceId: string) =>
  queryOptions({ queryKey: ['instances', 'wake', instanceId], queryFn: () => api.wake({ instanceId }) });

export const activityQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['instances', 'activity', instanceId],
    queryFn: () => api.activity({ instanceId }),
    refetchInterval: SIGNALS_MS,
  });

export const operationsQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['instances', 'operations', instanceId],
    queryFn: async () => (await api.listOperations({ instanceId, pager: { currentPage: 1, pageSize: 50 } })).operations,
  });

/** Usage of the instance and what was paid ahead for it. */
export const costQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['billing', 'instance', instanceId],
    queryFn: async () => {
      const { periods } = await api.listUsagePeriods({ subjectId: instanceId, pager: MOST });
      const isPaidAhead = periods.some(({ state }) => state === 'paidAhead');
      const kinds = isPaidAhead ? (['prepayment', 'refund'] as const) : [];
      const answers = await Promise.all(
        kinds.map((kind) => api.listEntries({ subjectId: instanceId, kind, pager: MOST })),
      );
      const payments = answers.flatMap(({ entries }) => entries);
      return { periods, payments, total: totalOf(periods, payments) };
    },
    refetchInterval: MINUTE_MS,
  });
export type Cost = Awaited<ReturnType<NonNullable<ReturnType<typeof costQuery>['queryFn']>>>;

export const portsQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['instances', 'ports', instanceId],
    queryFn: async () => (await api.listPorts({ instanceId })).ports,
  });
export const listeningQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['instances', 'listening', instanceId],
    queryFn: async () => (await api.listListeningPorts({ instanceId })).ports,
    refetchInterval: SIGNALS_MS,
  });
export const sharesQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['instances', 'shares', instanceId],
    queryFn: async () => (await api.listShares({ instanceId })).shares,
  });
export const variablesQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['instances', 'environment', instanceId],
    queryFn: async () => (await api.listInstanceEnvironment({ instanceId })).variables,
  });
export const terminalsQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ['instances', 'terminals', instanceId],
    queryFn: async () => (await api.listTerminals({ instanceId })).terminals,
    refetchInterval: SIGNALS_MS,
  });
