/** Budgets, and the forecast of an account. */
import type { Budgets } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

export const budgetHandlers = (budgets: Budgets) =>
  ({
    async forecast(caller) {
      const { lastsUntilMs, archiveAtMs, deleteAtMs, steps, ...forecast } = await budgets.forecast(caller);
      return {
        ...forecast,
        lastsUntilUnixMs: lastsUntilMs,
        archiveAtUnixMs: archiveAtMs,
        deleteAtUnixMs: deleteAtMs,
        steps: steps.map(({ step, atMs }) => ({ step, atUnixMs: atMs })),
      };
    },
    setBudget: (caller, { body, idempotency }) => budgets.set(caller, body, idempotency),
    listBudgets: (caller) => budgets.list(caller),
    deleteBudget: (caller, { body, idempotency }) => budgets.delete(caller, body, idempotency),
    setAccountBudget: (caller, { body, idempotency }) => budgets.setFor(caller, body, idempotency),
    listAccountBudgets: (_, { body }) => budgets.listFor(body.username),
    deleteAccountBudget: (caller, { body, idempotency }) => budgets.deleteFor(caller, body, idempotency),
  }) satisfies Partial<ClosedHandlers>;
