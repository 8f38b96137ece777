/** Keeps pages from people whose role may not use them; the API refuses their calls anyway. */
import { notFound } from '@tanstack/react-router';
import { hasRole } from '../../../src/contract/access/roles.ts';
import { queryClient } from './query-client.ts';
import { sessionQuery } from './session.ts';

/** For `beforeLoad` of a route. The page that is shown instead names the role. */
export const onlyFor = (role: 'operator' | 'admin') => async (): Promise<void> => {
  const { group } = await queryClient.ensureQueryData(sessionQuery);
  if (!hasRole(group, role)) throw notFound({ data: role });
};
