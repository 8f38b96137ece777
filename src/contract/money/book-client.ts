/** Downloads of the books, for the typed client. */
import type { z } from 'zod';
import { bookFileRoutes, type statementQuery } from './billing.ts';

type BookName = keyof typeof bookFileRoutes;

/** The response has its body unread. */
export type BookCalls = Record<BookName, (query: z.input<typeof statementQuery>) => Promise<Response>>;

export function bookCalls(open: (path: string) => Promise<Response>): BookCalls {
  const call =
    (name: BookName): BookCalls[BookName] =>
    ({ month, timeZone }) =>
      open(
        `${bookFileRoutes[name].path}?${new URLSearchParams({ month, ...(timeZone === undefined ? {} : { timeZone }) })}`,
      );
  return {
    statementCsv: call('statementCsv'),
    statementXlsx: call('statementXlsx'),
    statementPage: call('statementPage'),
    focusCsv: call('focusCsv'),
    focusCsvOfAll: call('focusCsvOfAll'),
  };
}
