/** Environment variables of an instance, an account or the installation. */
import { z } from 'zod';
import { environmentLimits, refusalOfVariables, variableSources } from '../../domain/compute/environment.ts';
import {
  answer,
  empty,
  flag,
  id,
  instanceIdBody,
  integer,
  oneOfText,
  request,
  text,
  textOrNull,
  WITHOUT_NUL,
} from '../common.ts';
import { adminReadRoute, adminRoute, jsonRoute, readRoute } from '../route.ts';

const { variables: most, nameCharacters, valueBytes } = environmentLimits;
const NAME = `^[A-Za-z_][A-Za-z0-9_]{0,${nameCharacters - 1}}$`;

/** Names and values. An error names the variable, and never quotes its value. */
const variablesByName = (format?: 'password') =>
  z
    .record(z.string(), z.string())
    .superRefine((given, ctx) => {
      const message = refusalOfVariables(given);
      if (message !== null) ctx.addIssue({ code: 'custom', message, input: given });
    })
    .meta({
      maxProperties: most,
      propertyNames: { type: 'string', pattern: NAME },
      additionalProperties: {
        type: 'string',
        maxLength: valueBytes,
        pattern: WITHOUT_NUL,
        ...(format === undefined ? {} : { format }),
      },
    });

export const environmentFields = {
  environment: variablesByName().describe('Environment variables by name').optional(),
  secrets: variablesByName('password').describe('Environment variables whose values no answer repeats').optional(),
};
const names = z
  .array(
    z
      .string()
      .regex(new RegExp(NAME), {
        error: `must be 1 to ${nameCharacters} letters, digits and underscores, and not begin with a digit`,
      })
      .meta({ maxLength: nameCharacters }),
  )
  .max(most);
const instance = { instanceId: id.describe('Instance ID') };

export const environmentSetRequest = request('SetEnvironmentRequest', environmentFields);
export const environmentDeleteRequest = request('DeleteEnvironmentRequest', {
  names: names.describe('Names of the variables; unknown ones are ignored'),
});
export const instanceEnvironmentSetRequest = request('SetInstanceEnvironmentRequest', {
  ...instance,
  ...environmentFields,
});
export const instanceEnvironmentDeleteRequest = request('DeleteInstanceEnvironmentRequest', {
  ...instance,
  names: names.describe('Names of the variables; unknown ones are ignored'),
});

export const environmentChangeAnswer = answer('ChangeEnvironmentAnswer', {
  runningInstances: integer(
    'Instances that run or start now: their new sessions, commands, terminals and kernels get the change within seconds. Others get it at their next start',
  ),
});

const variable = answer('Variable', {
  name: text('Name'),
  value: textOrNull('Value; null for a secret'),
  isSecret: flag('Whether no answer repeats the value'),
  isLost: flag('Whether the value was sealed under a lost key: set it again'),
  from: oneOfText(variableSources, 'Layer; a later one replaces variables of an earlier one'),
  updatedAtUnixMs: integer('Time of the last change, Unix milliseconds; 0 for variables of Berth'),
});
export const environmentListAnswer = answer('ListEnvironmentAnswer', {
  variables: z.array(variable).describe('Variables, by name'),
});

export const instanceEnvironmentRoutes = {
  listInstanceEnvironment: readRoute('/instance/environment/list', instanceIdBody, environmentListAnswer, {
    summary: 'List all environment variables of an instance, each with the layer it is from',
  }),
  setInstanceEnvironment: jsonRoute(
    '/instance/environment/set',
    instanceEnvironmentSetRequest,
    environmentChangeAnswer,
    { idempotent: true, summary: 'Set environment variables of an instance; others stay' },
  ),
  deleteInstanceEnvironment: jsonRoute(
    '/instance/environment/delete',
    instanceEnvironmentDeleteRequest,
    environmentChangeAnswer,
    { idempotent: true, summary: 'Delete environment variables of an instance' },
  ),
} as const;

export const accountEnvironmentRoutes = {
  listEnvironment: readRoute('/user/environment/list', empty, environmentListAnswer, {
    summary: "List the account's environment variables",
  }),
  setEnvironment: jsonRoute('/user/environment/set', environmentSetRequest, environmentChangeAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Set environment variables for all instances of the account; others stay',
  }),
  deleteEnvironment: jsonRoute('/user/environment/delete', environmentDeleteRequest, environmentChangeAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: "Delete the account's environment variables",
  }),
} as const;

export const installationEnvironmentRoutes = {
  listInstallationEnvironment: adminReadRoute('/admin/environment/list', empty, environmentListAnswer, {
    summary: "List the installation's environment variables (administrators)",
  }),
  setInstallationEnvironment: adminRoute('/admin/environment/set', environmentSetRequest, environmentChangeAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Set environment variables for all instances; others stay (administrators)',
  }),
  deleteInstallationEnvironment: adminRoute(
    '/admin/environment/delete',
    environmentDeleteRequest,
    environmentChangeAnswer,
    {
      idempotent: true,
      lasting: { scope: 'instances' },
      summary: "Delete the installation's environment variables (administrators)",
    },
  ),
} as const;
