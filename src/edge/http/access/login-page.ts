/**
 * Login page of the console, and of visitors whose session at the gateway expired: plain HTML, with
 * a script for passkeys alone. It leads back to the address asked for: a view of the console, or a
 * notebook or port, for which it opens a session as `POST /instance/open` does.
 *
 * The address is a path of this server or at the gateway, and the label of a port's own host: this
 * server adds the configured host, so the page leads nowhere else. A GET changes nothing. A POST
 * from another origin is refused: no page logs its visitor in to another account.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { SECOND_FACTOR_HEADER } from '../../../contract/access/second-factor.ts';
import { isConsolePath } from '../../../contract/console-places.ts';
import { routes } from '../../../contract/routes.ts';
import { makeTimedSeal, type Caller, type Control } from '../../../control/index.ts';
import { MINUTE_MS } from '../../../domain/kernel/durations.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { LOGIN_PATH, returnTarget } from '../../gateway/login-link.ts';
import type { InstanceTarget } from '../../gateway/routing.ts';
import { auditNoteOf } from '../audit-hook.ts';
import type { LoginProvider } from './login-provider.ts';
import { signOnAddress } from './single-sign-on.ts';
import { accessCookie, refuseCrossSite } from '../credentials.ts';
import {
  alert,
  failurePage,
  formOf,
  linkTo,
  MAX_FORM_BYTES,
  page,
  paragraph,
  refuseOnPage,
  sendPage,
} from './form-page.ts';
import { formTextsFor, type FormTexts } from './form-texts.ts';
import { offersPasskeys } from './passkey-site.ts';
import { escaped, HTML_TYPE } from '../html.ts';
import { setCommonHeaders } from '../reply-headers.ts';
import { parameterOf } from '../request.ts';
import { makeValidate } from '../validate.ts';
import { visitorOf } from './visitor.ts';

interface LoginPageDeps {
  loginProvider?: Pick<LoginProvider, 'displayName'> | null;
  control: Pick<Control, 'access' | 'instances'>;
  gatewayOrigin: string;
  /** Parent domain of the hosts of ports; null: none. */
  portDomain?: string | null;
  /** Origins of this API; pages of other sites may not use the form. */
  ownOrigins?: readonly string[];
  secureCookies: boolean;
  hasPasskeyScript?: boolean;
}

interface Return {
  to: string;
  /** `<port>-<instanceId>`; empty: the gateway's host. */
  host: string;
  /** Null: a view of the console. */
  target: InstanceTarget | null;
}

export function mountLoginPage(app: FastifyInstance, deps: LoginPageDeps): void {
  const { control, secureCookies, hasPasskeyScript = false } = deps;
  const ownOrigins = new Set(deps.ownOrigins);
  const provider = deps.loginProvider?.displayName ?? null;
  const validate = makeValidate(routes.login.body, { unknown: 'ignore' });
  const elapsed = (): number => performance.now();
  const pendingLogins = makeTimedSeal({ about: 'login that waits for a code', lifeMs: PENDING_MS, elapsed });

  const returnOf = (to: unknown = '/', host: unknown = ''): Return => {
    if (typeof to === 'string' && host === '' && isConsoleView(to)) return { to, host, target: null };
    const known = typeof to === 'string' && typeof host === 'string';
    const target = known ? targetAt(deps, to, host) : null;
    if (known && target !== null) return { to, host, target };
    const message =
      'this page leads back to an address of the gateway, and its own address names none: open the address of the ' +
      'notebook or port again, and follow the link to the login from there';
    throw new Refusal('field_value', message);
  };

  const logIn = async (request: FastifyRequest, reply: FastifyReply, given: Given): Promise<Caller> => {
    auditNoteOf(request).loginName = given.username;
    const body = validate(given);
    const userAgent = request.headers['user-agent'];
    const { accessToken, accessExpire } = await control.access.login(body, request.ip, userAgent);
    reply.header('set-cookie', accessCookie(accessToken, accessExpire, secureCookies));
    const credential = { kind: 'token', token: accessToken } as const;
    return (request.caller = await control.access.authenticate(credential, { settingUp: true }));
  };

  const givenIn = (form: URLSearchParams): Given | null => {
    const sealed = form.get('pending');
    if (sealed === null)
      return form.has('username') ? { username: form.get('username'), password: form.get('password') } : null;
    const pending = pendingLogins.open(sealed);
    if (pending === null)
      throw new Refusal('not_logged_in', `the login took longer than ${PENDING_MS / 60_000} minutes: log in again`);
    const { username, password } = pendingLogin.parse(JSON.parse(pending.text));
    return { username, password, code: form.get('code') ?? '' };
  };

  app.get(LOGIN_PATH, async (request, reply) => {
    const passkeys = hasPasskeyScript && offersPasskeys(request, ownOrigins);
    try {
      const back = returnOf(parameterOf(request, 'to'), parameterOf(request, 'host'));
      const visitor = await visitorOf(request, control.access);
      if (visitor !== null && back.target === null) return leadTo(request, reply, back.to);
      const shown = { provider, back, visitor, trouble: null, username: '', passkeys };
      return sendPage(request, reply, 200, loginPage(formTextsFor(request), shown), { hasScript: passkeys });
    } catch (error) {
      return refuse(request, reply, error, { provider, back: null, visitor: null, username: '', passkeys });
    }
  });

  app.post(LOGIN_PATH, { bodyLimit: MAX_FORM_BYTES, config: { audited: 'loginPage' } }, async (request, reply) => {
    let back: Return | null = null;
    let visitor: Caller | null = null;
    let given: Given | null = null;
    const passkeys = hasPasskeyScript && offersPasskeys(request, ownOrigins);
    try {
      refuseCrossSite(request, ownOrigins);
      const form = formOf(request, 'programs log in with POST /api/user/login');
      back = returnOf(form.get('to'), form.get('host') ?? '');
      given = givenIn(form);
      visitor = given === null ? await visitorOf(request, control.access) : await logIn(request, reply, given);
      if (visitor === null) throw new Refusal('not_logged_in', 'the login expired: log in again');
      if (visitor.mustSetUpFactor) return leadTo(request, reply, SETTINGS);
      if (back.target === null) return leadTo(request, reply, back.to);
      const { mount, instanceId, port } = back.target;
      auditNoteOf(request).subjects.push(instanceId);
      const { url } = await control.instances.open(visitor, {
        instanceId,
        port: mount === 'notebook' ? undefined : port,
        back: { onOwnHost: mount === 'host', path: back.to },
      });
      return sendPage(request, reply, 200, openingPage(formTextsFor(request), url));
    } catch (error) {
      if (back !== null && given !== null && error instanceof Refusal && error.secondFactor === 'code')
        return askForCode(request, reply, error, {
          back,
          pending: pendingLogins.seal(JSON.stringify(pendingLogin.parse(given))),
          isWrong: given.code !== undefined,
          passkeys,
        });
      return refuse(request, reply, error, { provider, back, visitor, username: given?.username ?? '', passkeys });
    }
  });
}

/** A right name and password, until the code of the second factor comes. */
const pendingLogin = z.object({ username: z.string(), password: z.string() });
const PENDING_MS = 5 * MINUTE_MS;

interface Given {
  username: string | null;
  password: string | null;
  code?: string;
}

const SETTINGS = '/settings';
/** File of the console. */
export const PASSKEY_SCRIPT = 'passkey-login.js';
const MAX_VIEW = 2_000;

/** A path of the console with its query, without anything that leads to another host. */
const isConsoleView = (to: string): boolean =>
  to.length <= MAX_VIEW && /^\/(?:[a-z][\x21-\x5b\x5d-\x7e]*)?$/.test(to) && isConsolePath(to.split(/[?#]/)[0] ?? '');

const leadTo = (request: FastifyRequest, reply: FastifyReply, view: string): FastifyReply =>
  setCommonHeaders(request, reply, HTML_TYPE).header('referrer-policy', 'no-referrer').redirect(view, 303);

function targetAt(
  { gatewayOrigin, portDomain = null }: LoginPageDeps,
  to: string,
  host: string,
): InstanceTarget | null {
  if (host === '') return returnTarget(new URL(gatewayOrigin).host, to, portDomain);
  return portDomain === null ? null : returnTarget(`${host}.${portDomain}`, to, portDomain);
}

type Shown = Pick<LoginPage, 'provider' | 'visitor' | 'username' | 'passkeys'> & { back: Return | null };

function refuse(request: FastifyRequest, reply: FastifyReply, error: unknown, { back, ...shown }: Shown): unknown {
  const pageWith = (trouble: string, texts: FormTexts): string =>
    back === null ? failurePage(trouble, texts) : loginPage(texts, { back, trouble, ...shown });
  return refuseOnPage(request, reply, error, pageWith, { hasScript: back !== null && shown.passkeys });
}

interface CodePage {
  back: Return;
  pending: string;
  isWrong: boolean;
  passkeys: boolean;
}

function askForCode(request: FastifyRequest, reply: FastifyReply, error: Refusal, page: CodePage): FastifyReply {
  const texts = formTextsFor(request);
  reply.header(SECOND_FACTOR_HEADER, 'code');
  return refuseOnPage(request, reply, error, () => codePage(texts, page), { hasScript: page.passkeys });
}

interface LoginPage {
  /** Name of the login provider; null: none. */
  provider: string | null;
  back: Return;
  visitor: Caller | null;
  trouble: string | null;
  username: string;
  /** Whether browsers allow them here. */
  passkeys: boolean;
}

/** Shown by the script, in browsers that have passkeys. */
const passkeyBlock = (texts: FormTexts, { to, host }: Return): string => {
  const next = `${LOGIN_PATH}?${new URLSearchParams({ to, host })}`;
  return `<div hidden>
<button type="button" id="passkey" data-next="${escaped(next)}" data-failed="${escaped(texts.passkeyFailed)}">${texts.logInByPasskey}</button>
<p role="alert" id="passkey-trouble" hidden></p>
</div>
<script src="/${PASSKEY_SCRIPT}" type="module"></script>`;
};

const formFor =
  (back: Return) =>
  (fields: string, button: string): string => `<form method="post" action="${LOGIN_PATH}">
<input type="hidden" name="to" value="${escaped(back.to)}">
<input type="hidden" name="host" value="${escaped(back.host)}">
${fields}<button>${escaped(button)}</button>
</form>`;

function codePage(texts: FormTexts, { back, pending, isWrong, passkeys }: CodePage): string {
  const fields = `<input type="hidden" name="pending" value="${escaped(pending)}">
<label for="code">${texts.code}</label>
<input id="code" name="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false" required autofocus>
`;
  const parts = [
    alert(isWrong ? texts.wrongCode : null),
    paragraph(texts.codeText),
    formFor(back)(fields, texts.logIn),
    passkeys ? passkeyBlock(texts, back) : '',
  ];
  return page(texts, texts.secondFactor, parts.join('\n'));
}

function loginPage(texts: FormTexts, { provider, back, visitor, trouble, username, passkeys }: LoginPage): string {
  const form = formFor(back);
  const fields = `<label for="username">${texts.nameOrEmail}</label>
<input id="username" name="username" autocomplete="username" required value="${escaped(username)}"${username === '' ? ' autofocus' : ''}>
<label for="password">${texts.password}</label>
<input id="password" name="password" type="password" autocomplete="current-password" required${username === '' ? '' : ' autofocus'}>
`;
  return page(
    texts,
    texts.logIn,
    [
      alert(trouble),
      back.to === '/' ? '' : paragraph(texts.returnTo(back.to)),
      visitor === null ? '' : form('', texts.continueAs(visitor.username)),
      visitor === null ? '' : paragraph(texts.orOther),
      provider === null ? '' : linkTo({ href: signOnAddress(back), text: texts.logInWith(provider) }),
      form(fields, texts.logIn),
      passkeys ? passkeyBlock(texts, back) : '',
    ].join('\n'),
  );
}

/** Not a redirect: browsers apply `form-action` to redirects of a form, and to no refresh. */
const openingPage = (texts: FormTexts, url: string): string =>
  page(
    texts,
    texts.opening,
    `<p><a href="${escaped(url)}">${texts.goOn}</a></p>`,
    `<meta http-equiv="refresh" content="0;url=${escaped(url)}">\n`,
  );
