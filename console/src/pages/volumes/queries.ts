/** Questions of the pages of volumes. */
import { queryOptions } from '@tanstack/react-query';
import { api } from '../../app/api.ts';

export const volumeQuery = (id: string) =>
  queryOptions({ queryKey: ['volumes', 'one', id], queryFn: () => api.getVolume({ id }) });

/** Instances by their ids; one that is gone is left out. */
export const mountingQuery = (ids: readonly string[]) =>
  queryOptions({
    queryKey: ['instances', 'mounting', ids],
    queryFn: async () => {
      const asked = await Promise.allSettled(ids.map((instanceId) => api.getInstance({ instanceId })));
      return asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value.instance] : []));
    },
  });
