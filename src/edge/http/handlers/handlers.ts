/**
 * Turns a validated body into a control call, and the result into an object or stored JSON bytes.
 */
import type { Control } from '../../../control/index.ts';
import type { ListPages } from '../list-pages.ts';
import { accountHandlers, openHandlers } from './account.ts';
import { catalogHandlers } from './catalog.ts';
import type { ClosedHandlers, OpenHandlers } from './handler.ts';
import { insideHandlers } from './inside.ts';
import { instanceHandlers } from './instances.ts';
import { storageHandlers } from './storage.ts';

export interface Handlers {
  open: OpenHandlers;
  closed: ClosedHandlers;
}

export const makeHandlers = ({
  control,
  pages,
  secureCookies,
}: {
  control: Control;
  pages: ListPages;
  secureCookies: boolean;
}): Handlers => ({
  open: openHandlers(control.access, secureCookies),
  closed: {
    ...instanceHandlers(control, pages),
    ...insideHandlers(control),
    ...storageHandlers(control, pages),
    ...catalogHandlers(control),
    ...accountHandlers(control.access, secureCookies),
  },
});
