/** Launches that an account keeps under a name. */
import { z } from 'zod';
import { answer, empty, label, request, text, unixMs } from '../common.ts';
import { launchRequest } from './instance.ts';
import { jsonRoute, readRoute } from '../route.ts';

const name = label(64);

/** The launch as it was sent: answers have no schema with the defaults of a request. */
const keptLaunch: z.ZodType<z.input<typeof launchRequest>> = z
  .any()
  .refine((launch) => launchRequest.safeParse(launch).success)
  .meta({ $ref: '#/components/schemas/LaunchRequest' });

export const templateSetRequest = request('SetTemplateRequest', {
  name: name.describe('Name; an existing template of this name is replaced'),
  launch: launchRequest.describe('The launch, without `secrets`: set them on the instance'),
});
export const templateNameRequest = request('DeleteTemplateRequest', { name: name.describe('Name of the template') });
export const templateNameAnswer = answer('DeleteTemplateAnswer', { name: text('Name of the deleted template') });
export const templateSetAnswer = answer('SetTemplateAnswer', {
  name: text('Name'),
  updatedAtUnixMs: unixMs('Time of the change'),
});

const template = answer('LaunchTemplate', {
  name: text('Name'),
  launch: keptLaunch.describe('The launch, to send as it is'),
  updatedAtUnixMs: unixMs('Time of the last change'),
});
export const templateListAnswer = answer('ListTemplatesAnswer', {
  templates: z.array(template).describe('Templates of the account, by name'),
});

export const templateRoutes = {
  setTemplate: jsonRoute('/instance/template/set', templateSetRequest, templateSetAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Keep a launch under a name, or replace it; at most 50 for an account',
  }),
  listTemplates: readRoute('/instance/template/list', empty, templateListAnswer, {
    compressed: true,
    summary: "List the account's launch templates, by name",
  }),
  deleteTemplate: jsonRoute('/instance/template/delete', templateNameRequest, templateNameAnswer, {
    idempotent: true,
    summary: 'Delete a launch template',
  }),
} as const;
