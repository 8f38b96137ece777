/** Questions of the pages of accounts. */
import { queryOptions } from '@tanstack/react-query';
import { api } from '../../../app/api.ts';

export const accountQuery = (accountId: string) =>
  queryOptions({ queryKey: ['accounts', 'one', accountId], queryFn: () => api.getAccount({ accountId }) });
