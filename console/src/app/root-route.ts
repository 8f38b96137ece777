/** Parent of every route: the login, and the frame. */
import { createRootRoute } from '@tanstack/react-router';
import { NotFound } from './not-found.tsx';
import { queryClient } from './query-client.ts';
import { sessionQuery } from './session.ts';
import { Shell } from './shell.tsx';

export const rootRoute = createRootRoute({
  component: Shell,
  notFoundComponent: NotFound,
  // The frame waits for the login, while the code of the page loads.
  beforeLoad: () => void queryClient.prefetchQuery(sessionQuery),
});
