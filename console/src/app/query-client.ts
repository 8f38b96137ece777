/** Answers of the API, kept until an event says that they changed (`live.ts`). */
import { QueryCache, QueryClient } from '@tanstack/react-query';
import { ApiError } from '../../../src/contract/client.ts';
import { leadToLogin, leadToSetUp } from './session.ts';

const RETRIES = 2;

/** A refusal stays one; only what may pass is tried again. */
const mayPass = (error: Error): boolean =>
  !(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status >= 500;

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error) => {
      if (!(error instanceof ApiError)) return;
      if (error.code === 'not_logged_in') leadToLogin();
      if (error.secondFactor === 'setUp') leadToSetUp();
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: Infinity,
      refetchOnWindowFocus: false,
      retry: (failures, error) => failures < RETRIES && mayPass(error),
      retryDelay: (failures, error) =>
        (error instanceof ApiError ? (error.retryAfterS ?? 0) * 1000 : 0) || Math.min(1000 * 2 ** failures, 15_000),
    },
  },
});
