/** Questions that several places ask. The first member of a key is what `live.ts` makes stale. */
import { queryOptions } from '@tanstack/react-query';
import { api } from './api.ts';

const ALL = { currentPage: 1, pageSize: 500 };

/** Bookings are of each minute, and publish no event. */
const BOOKED_EVERY_MS = 60_000;

export const forecastQuery = queryOptions({
  queryKey: ['billing', 'forecast'],
  queryFn: () => api.forecast(),
  refetchInterval: BOOKED_EVERY_MS,
});
export const catalogQuery = queryOptions({
  queryKey: ['catalog'],
  queryFn: () => api.catalog(),
  select: ({ instanceInfos }) => instanceInfos,
});
export const regionsQuery = queryOptions({
  queryKey: ['regions'],
  queryFn: () => api.listRegions(),
  select: ({ regions }) => regions,
});
export const imagesQuery = queryOptions({
  queryKey: ['images'],
  queryFn: () => api.listImages({ pager: ALL }),
  select: ({ images }) => images,
});
export const volumesQuery = queryOptions({
  queryKey: ['volumes', 'all'],
  queryFn: () => api.listVolumes({ pager: ALL }),
  select: ({ volumeList }) => volumeList,
});
