/** Page where a person makes an account, while the operator allows it. */
import type { FastifyInstance } from 'fastify';
import { username } from '../../contract/account.ts';
import type { Control } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { refuseCrossSite } from './credentials.ts';
import { alert, failurePage, formOf, MAX_FORM_BYTES, page, paragraph, refuseOnPage, sendPage } from './form-page.ts';
import { escaped } from './html.ts';
import { newPasswordFields, newPasswordOf } from './password-page.ts';

export const REGISTER_PATH = '/register';

interface RegisterPageDeps {
  control: Pick<Control, 'accounts'>;
  ownOrigins?: readonly string[];
}

export function mountRegisterPage(app: FastifyInstance, { control: { accounts }, ...deps }: RegisterPageDeps): void {
  const ownOrigins = new Set(deps.ownOrigins);
  const closed = 'Registration is off on this installation: ask an administrator for an account.';

  app.get(REGISTER_PATH, async (request, reply) =>
    accounts.registers()
      ? sendPage(request, reply, 200, formPage('', null))
      : sendPage(request, reply, 403, failurePage(closed)),
  );

  app.post(REGISTER_PATH, { bodyLimit: MAX_FORM_BYTES }, async (request, reply) => {
    let name = '';
    try {
      refuseCrossSite(request, ownOrigins);
      const form = formOf(request, 'programs register with POST /api/user/register');
      name = form.get('username') ?? '';
      const given = username.safeParse(name);
      if (!given.success) throw new Refusal('field_value', `the name ${given.error.issues[0]?.message ?? ''}`);
      const made = await accounts.register({ username: given.data, password: newPasswordOf(form) }, request.ip);
      const text = paragraph(`The account ${made.username} is made. Log in with this name.`);
      return sendPage(request, reply, 200, page('Account made', text));
    } catch (error) {
      return refuseOnPage(request, reply, error, (trouble) => formPage(name, trouble));
    }
  });
}

const formPage = (name: string, trouble: string | null): string =>
  page(
    'Make an account',
    [
      alert(trouble),
      `<form method="post" action="${REGISTER_PATH}">
<label for="username">Name</label>
<input id="username" name="username" autocomplete="username" required value="${escaped(name)}">
${newPasswordFields}<button>Make the account</button>
</form>`,
    ].join('\n'),
  );
