/** What a launch starts from. */
import { queryOptions } from '@tanstack/react-query';
import { ApiError } from '../../../../src/contract/client.ts';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';

/** Read once a visit: an event must not change what somebody is about to launch. */
const ONCE = { staleTime: 'static', gcTime: 0 } as const;

/** Null: there is none. */
export const newestQuery = queryOptions({
  queryKey: ['instances', 'newest'],
  queryFn: async () => (await api.listInstances({ pager: { currentPage: 1, pageSize: 1 } })).instances[0] ?? null,
  ...ONCE,
});

/** The instance whose launch is repeated. Null: no such instance. */
export const likedQuery = (instanceId: string | undefined) =>
  queryOptions({
    queryKey: ['instances', 'liked', instanceId],
    queryFn: async (): Promise<AnswerOf<'getInstance'> | null> => {
      if (instanceId === undefined) return null;
      try {
        return await api.getInstance({ instanceId });
      } catch (error) {
        if (error instanceof ApiError && error.code === 'not_found') return null;
        throw error;
      }
    },
    ...ONCE,
  });

export const templatesQuery = queryOptions({
  queryKey: ['templates'],
  queryFn: () => api.listTemplates(),
  select: ({ templates }) => templates,
});
