/** Questions about images. */
import { queryOptions } from '@tanstack/react-query';
import { api } from '../../app/api.ts';
import { imagesQuery } from '../../app/queries.ts';

const PROGRESS_MS = 2_000;

/** Progress has no event: it is asked for while there is some. */
export const progressingImagesQuery = queryOptions({
  ...imagesQuery,
  refetchInterval: ({ state }) =>
    state.data?.images.some((one) => one.state === 'Preparing' || one.state === 'Saving') ? PROGRESS_MS : false,
});

export const registriesQuery = queryOptions({
  queryKey: ['registries'],
  queryFn: async () => (await api.listRegistries()).registries,
});
