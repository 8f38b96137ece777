/** The login of this browser: who it is, and the way to the login page and back. */
import { queryOptions, useSuspenseQuery } from '@tanstack/react-query';
import { hasRole } from '../../../src/contract/roles.ts';
import { api } from './api.ts';
import { viewToReturn } from './view-to-return.ts';

/** The login page leads back to this view. */
export const loginAddress = (): string => `/login?${new URLSearchParams({ to: viewToReturn(window.location) })}`;

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
