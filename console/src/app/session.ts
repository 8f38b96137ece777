/** The login of this browser: who it is, and the way to the login page and back. */
import { queryOptions, useSuspenseQuery } from '@tanstack/react-query';
import { hasRole } from '../../../src/contract/access/roles.ts';
import { api } from './api.ts';
import { base } from './base.ts';
import { viewToReturn } from './view-to-return.ts';

/** The login page leads back to this view. */
export const loginAddress = (): string => `${base}/login?${new URLSearchParams({ to: viewToReturn(window.location) })}`;

let dialogs = 0;
let hasEnded = false;

/** After the login ended. An open dialog stays, with what is typed: it links to the login. */
export function leadToLogin(): void {
  if (dialogs === 0) return window.location.replace(loginAddress());
  hasEnded = true;
}

const SET_UP = `${base}/settings`;

/** A login that can do nothing before it has a second factor. */
export function leadToSetUp(): void {
  if (window.location.pathname !== SET_UP) window.location.replace(SET_UP);
}

/** While a dialog is open; returns its end, after which the page asks again who is logged in. */
export function keepForDialog(): () => void {
  dialogs += 1;
  return () => {
    dialogs -= 1;
    // One dialog may follow another.
    setTimeout(() => hasEnded && dialogs === 0 && window.location.reload());
  };
}

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
