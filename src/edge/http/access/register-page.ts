/** Page where a person makes an account, while the operator allows it. */
import type { FastifyInstance } from 'fastify';
import { username } from '../../../contract/access/account.ts';
import type { Control } from '../../../control/index.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { auditNoteOf } from '../audit-hook.ts';
import { refuseCrossSite } from '../credentials.ts';
import { alert, failurePage, formOf, MAX_FORM_BYTES, page, paragraph, refuseOnPage, sendPage } from './form-page.ts';
import { LOGIN_PATH } from '../../gateway/login-link.ts';
import { formTextsFor, type FormTexts } from './form-texts.ts';
import { escaped } from '../html.ts';
import { newPasswordFields, newPasswordOf } from './password-page.ts';

export const REGISTER_PATH = '/register';

interface RegisterPageDeps {
  control: Pick<Control, 'accounts' | 'refuseIfFull'>;
  ownOrigins?: readonly string[];
}

export function mountRegisterPage(app: FastifyInstance, { control, ...deps }: RegisterPageDeps): void {
  const { accounts } = control;
  const ownOrigins = new Set(deps.ownOrigins);

  app.get(REGISTER_PATH, async (request, reply) => {
    const texts = formTextsFor(request);
    return accounts.registers()
      ? sendPage(request, reply, 200, formPage(texts, '', null))
      : sendPage(request, reply, 403, failurePage(texts.closed, texts));
  });

  const audited = { audited: 'registerPage' };
  app.post(REGISTER_PATH, { bodyLimit: MAX_FORM_BYTES, config: audited }, async (request, reply) => {
    let name = '';
    try {
      refuseCrossSite(request, ownOrigins);
      control.refuseIfFull();
      const form = formOf(request, 'programs register with POST /api/user/register');
      name = form.get('username') ?? '';
      const given = username.safeParse(name);
      if (!given.success) throw new Refusal('field_value', `the name ${given.error.issues[0]?.message ?? ''}`);
      const made = await accounts.register({ username: given.data, password: newPasswordOf(form) }, request.ip);
      auditNoteOf(request).loginName = made.username;
      const texts = formTextsFor(request);
      return sendPage(request, reply, 200, page(texts, texts.made, madeText(texts, made.username)));
    } catch (error) {
      return refuseOnPage(request, reply, error, (trouble, texts) => formPage(texts, name, trouble));
    }
  });
}

const madeText = (texts: FormTexts, name: string): string =>
  `${paragraph(texts.madeText(name))}\n<p><a href="${LOGIN_PATH}">${texts.logIn}</a></p>`;

const formPage = (texts: FormTexts, name: string, trouble: string | null): string =>
  page(
    texts,
    texts.register,
    [
      alert(trouble),
      `<form method="post" action="${REGISTER_PATH}">
<label for="username">${texts.name}</label>
<input id="username" name="username" autocomplete="username" required value="${escaped(name)}">
${newPasswordFields(texts)}<button>${texts.registerAct}</button>
</form>`,
    ].join('\n'),
  );
