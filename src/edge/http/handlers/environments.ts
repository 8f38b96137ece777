/** Environment variables of instances, the account and the installation. */
import type { Environments, ListedVariable } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

const presented = (variables: readonly ListedVariable[]) => ({
  variables: variables.map(({ updatedAtMs, ...variable }) => ({ ...variable, updatedAtUnixMs: updatedAtMs })),
});

const nothing = { environment: {}, secrets: {}, names: [] };

export const environmentHandlers = ({ list, change }: Environments) =>
  ({
    listEnvironment: async (caller) => presented(await list(caller, 'account')),
    setEnvironment: (caller, { body: { environment = {}, secrets = {} }, idempotency }) =>
      change(caller, 'account', { ...nothing, environment, secrets }, idempotency),
    deleteEnvironment: (caller, { body: { names }, idempotency }) =>
      change(caller, 'account', { ...nothing, names }, idempotency),
    listInstallationEnvironment: async (caller) => presented(await list(caller, 'installation')),
    setInstallationEnvironment: (caller, { body: { environment = {}, secrets = {} }, idempotency }) =>
      change(caller, 'installation', { ...nothing, environment, secrets }, idempotency),
    deleteInstallationEnvironment: (caller, { body: { names }, idempotency }) =>
      change(caller, 'installation', { ...nothing, names }, idempotency),
    listInstanceEnvironment: async (caller, { body }) => presented(await list(caller, body)),
    setInstanceEnvironment: (caller, { body: { instanceId, environment = {}, secrets = {} }, idempotency }) =>
      change(caller, { instanceId }, { ...nothing, environment, secrets }, idempotency),
    deleteInstanceEnvironment: (caller, { body: { instanceId, names }, idempotency }) =>
      change(caller, { instanceId }, { ...nothing, names }, idempotency),
  }) satisfies Partial<ClosedHandlers>;
