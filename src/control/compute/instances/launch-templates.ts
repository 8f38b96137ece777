/**
 * Launches that an account keeps under a name. They are sealed as variables are: scripts and
 * variables of a launch may hold what only its owner should read.
 */
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { lockAccount } from '../../../store/tables/accounts.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { deleteTemplate, otherTemplates, saveTemplate, templatesOf } from '../../../store/tables/launch-templates.ts';
import { type Caller, type Mutation, idempotentWrite, type WriteDeps, type Seal } from '../../kernel/ports.ts';

export interface TemplateInput {
  name: string;
  /** A valid launch; kept as it is. */
  launch: { secrets?: Readonly<Record<string, string>> | undefined };
}

export interface ListedTemplate {
  name: string;
  /** JSON of the launch. */
  launchText: string;
  updatedAtMs: number;
}

export interface Templates {
  set: Mutation<TemplateInput, { name: string; updatedAtMs: number }>;
  /** By name. Omits those that were sealed under a lost key. */
  list(caller: Caller): Promise<ListedTemplate[]>;
  delete: Mutation<{ name: string }, { name: string }>;
}

export const MAX_TEMPLATES = 50;
/** Sum over the sealed templates of an account: each answer of the list holds them all. */
export const MAX_TEMPLATE_CHARACTERS = 4_000_000;

const purpose = (accountId: string, name: string): string => `template ${accountId} ${name}`;

export const makeTemplates = (deps: WriteDeps & { seal: Seal }): Templates => ({
  async set({ accountId }, { name, launch: { secrets = {}, ...launch } }, idempotency) {
    if (Object.keys(secrets).length > 0)
      throw new Refusal(
        'field_value',
        'field "launch.secrets" is not kept in a template: leave it out, and set the secrets on the instance with POST /api/instance/environment/set, or on the account',
      );
    return idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
      await lockAccount(tx, accountId);
      const sealed = deps.seal.seal(JSON.stringify(launch), purpose(accountId, name));
      const others = await otherTemplates(tx, accountId, name);
      if (others.count >= MAX_TEMPLATES)
        throw new Refusal(
          'over_quota',
          `the account has ${others.count} launch templates, the most there may be; delete one, or replace one by its name`,
        );
      if (others.characters + sealed.length > MAX_TEMPLATE_CHARACTERS)
        throw new Refusal(
          'over_quota',
          `the launch templates of the account would hold ${others.characters + sealed.length} characters, and may hold ${MAX_TEMPLATE_CHARACTERS}; delete one, or move a long script to a volume`,
        );
      await saveTemplate(tx, { accountId, name, sealed, updatedAtMs: nowMs });
      await appendEvent(tx, { accountId, atMs: nowMs, kind: 'template.set', subjectId: accountId, data: { name } });
      return { name, updatedAtMs: nowMs };
    });
  },
  async list({ accountId }) {
    const rows = await templatesOf(deps.store.read, accountId);
    return rows.flatMap(({ name, sealed, updatedAtMs }) => {
      const launchText = deps.seal.open(sealed, purpose(accountId, name));
      return launchText === null ? [] : [{ name, launchText, updatedAtMs }];
    });
  },
  delete: ({ accountId }, { name }, idempotency) =>
    idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
      await lockAccount(tx, accountId);
      if (!(await deleteTemplate(tx, accountId, name)))
        throw new Refusal(
          'not_found',
          `launch template ${JSON.stringify(name)} not found; POST /api/instance/template/list lists the templates`,
        );
      await appendEvent(tx, { accountId, atMs: nowMs, kind: 'template.deleted', subjectId: accountId, data: { name } });
      return { name };
    }),
});
