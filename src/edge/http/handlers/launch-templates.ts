/** Launch templates. Control keeps the JSON of a launch, which answers repeat as it is. */
import type { Templates } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

export const templateHandlers = (templates: Templates) =>
  ({
    async setTemplate(caller, { body, idempotency }) {
      const { name, updatedAtMs } = await templates.set(caller, body, idempotency);
      return { name, updatedAtUnixMs: updatedAtMs };
    },
    async listTemplates(caller) {
      const texts = (await templates.list(caller)).map(
        ({ name, launchText, updatedAtMs }) =>
          `{"name":${JSON.stringify(name)},"launch":${launchText},"updatedAtUnixMs":${updatedAtMs}}`,
      );
      return Buffer.from(`{"templates":[${texts.join(',')}]}`);
    },
    deleteTemplate: (caller, { body, idempotency }) => templates.delete(caller, body, idempotency),
  }) satisfies Partial<ClosedHandlers>;
