import type { Control } from '../../control/index.ts';
import { accessHandlers, logoutHandlers, openHandlers, passkeyHandlers } from './access/handlers.ts';
import { computeHandlers, waitingHandlers } from './compute/handlers.ts';
import { deliveryHandlers } from './delivery/handlers.ts';
import type { Handlers } from './handler.ts';
import type { ListPages } from './list-pages.ts';
import { moneyHandlers } from './money/handlers.ts';
import { regionHandlers } from './regions/handlers.ts';
import { storageHandlers } from './storage/handlers.ts';

interface HandlerOptions {
  secureCookies: boolean;
  /** Issuer of the login provider; null: none. */
  issuer: string | null;
}

/** The handlers of all JSON routes, by subject. */
export const makeHandlers = (
  control: Control,
  pages: ListPages,
  { secureCookies, issuer }: HandlerOptions,
): Handlers => ({
  open: openHandlers(control, secureCookies),
  ofRequest: { ...logoutHandlers(control, secureCookies), ...passkeyHandlers(control), ...waitingHandlers(control) },
  closed: {
    ...accessHandlers(control, issuer),
    ...deliveryHandlers(control),
    ...moneyHandlers(control),
    ...storageHandlers(control, pages),
    ...regionHandlers(control),
    ...computeHandlers(control, pages),
    listTasks: async () => ({ tasks: await control.tasks.list(), due: await control.tasks.due() }),
  },
});
