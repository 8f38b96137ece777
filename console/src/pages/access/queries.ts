/** Questions of the tabs. */
import { queryOptions } from '@tanstack/react-query';
import { api } from '../../app/api.ts';

export const apiKeysQuery = queryOptions({
  queryKey: ['apiKeys'],
  queryFn: async () => (await api.listApiKeys()).keys,
  // The last use changes without an event.
  refetchOnMount: 'always',
});
export const sshKeysQuery = queryOptions({
  queryKey: ['sshKeys'],
  queryFn: async () => (await api.listSshKeys()).sshKeys,
});
export const loginsQuery = queryOptions({
  queryKey: ['logins'],
  queryFn: async () => (await api.listLogins()).logins,
  refetchOnMount: 'always',
});
export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: async () => (await api.listSessions()).sessions,
  refetchOnMount: 'always',
});
export const webhooksQuery = queryOptions({
  queryKey: ['webhooks', 'list'],
  queryFn: async () => (await api.listWebhooks()).webhooks,
  refetchOnMount: 'always',
});
export const deliveriesQuery = (id: string) =>
  queryOptions({
    queryKey: ['webhooks', 'deliveries', id],
    queryFn: () => api.listWebhookDeliveries({ id }),
    refetchOnMount: 'always',
  });
