/** Rows of launch templates. */
import { empty } from './common.ts';
import { jsonRoute, readRoute } from './route.ts';
import * as template from './template.ts';

export const templateRoutes = {
  setTemplate: jsonRoute('/instance/template/set', template.templateSetRequest, template.templateSetAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    summary: 'Keep a launch under a name, or replace it; at most 50 for an account',
  }),
  listTemplates: readRoute('/instance/template/list', empty, template.templateListAnswer, {
    compressed: true,
    summary: "List the account's launch templates, by name",
  }),
  deleteTemplate: jsonRoute('/instance/template/delete', template.templateNameRequest, template.templateNameAnswer, {
    idempotent: true,
    summary: 'Delete a launch template',
  }),
} as const;
