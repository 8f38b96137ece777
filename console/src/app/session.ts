/** The login of this browser: who it is, and the way to the login page and back. */
import { queryOptions, useSuspenseQuery } from '@tanstack/react-query';
import { hasRole } from '../../../src/contract/roles.ts';
import { api } from './api.ts';

/** The login page leads back to this view. */
export function loginAddress(): string {
  const here = window.location.pathname + window.location.search;
  return `/login?${new URLSearchParams({ to: here })}`;
}

export const leadToLogin = (): void => window.location.replace(loginAddress());

export const sessionQuery = queryOptions({ queryKey: ['session'], queryFn: () => api.userInfo() });

export interface Session {
  username: string;
  email: string;
  isOperator: boolean;
  isAdmin: boolean;
}

export function useSession(): Session {
  const { username, email, group } = useSuspenseQuery(sessionQuery).data;
  return { username, email, isOperator: hasRole(group, 'operator'), isAdmin: hasRole(group, 'admin') };
}
