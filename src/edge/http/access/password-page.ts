/**
 * Page behind the link of an invitation or a reset: its form sets the password. A GET does not use
 * up the link, because programs that preview links follow it.
 */
import type { FastifyInstance } from 'fastify';
import { password } from '../../../contract/access/account.ts';
import type { Control } from '../../../control/index.ts';
import { passwordLinkEnded, Refusal } from '../../../domain/kernel/refusal.ts';
import { auditNoteOf } from '../audit-hook.ts';
import { refuseCrossSite } from '../credentials.ts';
import { alert, failurePage, formOf, MAX_FORM_BYTES, page, paragraph, refuseOnPage, sendPage } from './form-page.ts';
import { LOGIN_PATH } from '../../gateway/login-link.ts';
import { formTextsFor, type FormTexts } from './form-texts.ts';
import { escaped } from '../html.ts';
import { parameterOf } from '../request.ts';

export const PASSWORD_PATH = '/password';

interface PasswordPageDeps {
  control: Pick<Control, 'accounts'>;
  ownOrigins?: readonly string[];
}

export function mountPasswordPage(app: FastifyInstance, { control: { accounts }, ...deps }: PasswordPageDeps): void {
  const ownOrigins = new Set(deps.ownOrigins);
  const linkAt = async (token: unknown) => {
    const link = typeof token === 'string' ? await accounts.linkOf(token) : null;
    if (typeof token !== 'string' || link === null) throw passwordLinkEnded();
    return { token, ...link };
  };

  app.get(PASSWORD_PATH, async (request, reply) => {
    try {
      const link = await linkAt(parameterOf(request, 'token'));
      return sendPage(request, reply, 200, formPage(formTextsFor(request), link, null));
    } catch (error) {
      return refuseOnPage(request, reply, error, failurePage);
    }
  });

  const audited = { audited: 'passwordPage' };
  app.post(PASSWORD_PATH, { bodyLimit: MAX_FORM_BYTES, config: audited }, async (request, reply) => {
    let shown: (trouble: string, texts: FormTexts) => string = failurePage;
    try {
      refuseCrossSite(request, ownOrigins);
      const form = formOf(request, 'programs change a password with POST /api/user/password');
      const link = await linkAt(form.get('token'));
      Object.assign(auditNoteOf(request), { loginName: link.username, credential: 'link' });
      shown = (trouble, texts) => formPage(texts, link, trouble);
      const newPassword = newPasswordOf(form);
      const { username } = await accounts.setPassword({ token: link.token, newPassword }, request.ip);
      const texts = formTextsFor(request);
      const text = `${paragraph(texts.passwordSetText(username))}\n<p><a href="${LOGIN_PATH}">${texts.logIn}</a></p>`;
      return sendPage(request, reply, 200, page(texts, texts.passwordSet, text));
    } catch (error) {
      return refuseOnPage(request, reply, error, shown);
    }
  });
}

export function newPasswordOf(form: URLSearchParams): string {
  const given = password.safeParse(form.get('password'));
  if (!given.success) throw new Refusal('field_value', 'a password must have 8 to 1024 characters: choose another');
  if (given.data !== form.get('repeated'))
    throw new Refusal('field_value', 'the two passwords differ: type the same password twice');
  return given.data;
}

export const newPasswordFields = ({
  newPassword,
  repeated,
}: FormTexts): string => `<label for="password">${newPassword}</label>
<input id="password" name="password" type="password" autocomplete="new-password" minlength="8" required>
<label for="repeated">${repeated}</label>
<input id="repeated" name="repeated" type="password" autocomplete="new-password" minlength="8" required>
`;

const formPage = (
  texts: FormTexts,
  { token, username }: { token: string; username: string },
  trouble: string | null,
): string =>
  page(
    texts,
    texts.setPassword,
    [
      alert(trouble),
      paragraph(texts.setPasswordText(username)),
      `<form method="post" action="${PASSWORD_PATH}">
<input type="hidden" name="token" value="${escaped(token)}">
<input type="hidden" name="username" autocomplete="username" value="${escaped(username)}">
${newPasswordFields(texts)}<button>${texts.setPasswordAct}</button>
</form>`,
    ].join('\n'),
  );
