/**
 * Login by the operator's provider of OpenID Connect: `GET /api/user/oidc/login` leads to it, and
 * it leads back to the callback.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { makeUsedKeys } from '../../../async/used-keys.ts';
import { BASE_PATH } from '../../../contract/routes.ts';
import type { Control, Log } from '../../../control/index.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { decideLogin } from '../../../domain/access/sign-on-rules.ts';
import { LOGIN_PATH } from '../../gateway/login-link.ts';
import { auditNoteOf } from '../audit-hook.ts';
import { accessCookie, cookieOf, refuseCrossSite } from '../credentials.ts';
import { failurePage, formOf, linkTo, MAX_FORM_BYTES, page, paragraph, refuseOnPage, sendPage } from './form-page.ts';
import { formTextsFor } from './form-texts.ts';
import { HTML_TYPE } from '../html.ts';
import type { LoginProvider } from './login-provider.ts';
import { LIFE_S, makePendingLogins, type Pending } from './pending-logins.ts';
import { JSON_TYPE } from '../refusal-reply.ts';
import { setCommonHeaders } from '../reply-headers.ts';
import { parameterOf } from '../request.ts';
import { visitorOf } from './visitor.ts';

const FOLDER = `${BASE_PATH}/user/oidc`;
export const SIGN_ON_PATHS = {
  login: `${FOLDER}/login`,
  callback: `${FOLDER}/callback`,
  logout: `${FOLDER}/logout`,
  backchannel: `${FOLDER}/backchannel`,
} as const;
/** ID token of the browser's login, for the logout at the provider. */
const HINT_COOKIE = 'berth_oidc_hint';
/** Browsers drop longer cookies. */
const MAX_HINT = 3_500;
const CHOOSE_ACCOUNT = 'select_account';
const MAX_RETURN = 2_000;

const notUnderWay = (): Refusal =>
  new Refusal(
    'not_logged_in',
    `no login is under way in this browser, or it took longer than ${LIFE_S / 60} minutes: begin again at ${SIGN_ON_PATHS.login}`,
  );

/** Address asked for, as the login page has it; empty: the console. */
interface Back {
  to: string;
  host: string;
}

export const signOnAddress = ({ to, host }: Back, more: { prompt?: typeof CHOOSE_ACCOUNT } = {}): string =>
  `${SIGN_ON_PATHS.login}?${new URLSearchParams({ to, host, ...more })}`;

interface SignOnDeps {
  control: Pick<Control, 'access'>;
  loginProvider?: LoginProvider | null;
  secureCookies: boolean;
  log: Pick<Log, 'warn'>;
}

export function mountSignOn(app: FastifyInstance, deps: SignOnDeps): void {
  const { control, loginProvider = null, secureCookies, log } = deps;
  const logins = makePendingLogins({ path: FOLDER, secure: secureCookies });
  const once = makeOnce();

  const provider = (): LoginProvider => {
    if (loginProvider !== null) return loginProvider;
    const message =
      'this server has no login provider: log in with name and password, or the operator sets BERTH_OIDC_ISSUER';
    throw new Refusal('not_found', message);
  };

  const route = (url: string, config: { audited?: string | null }, handler: RouteHandlerMethod): void =>
    void app.route({ method: 'GET', url, exposeHeadRoute: false, config, handler });

  const refuse = (request: FastifyRequest, reply: FastifyReply, error: unknown, back: Back): FastifyReply =>
    refuseOnPage(request, reply, error, (trouble, texts) => {
      if (loginProvider === null) return failurePage(trouble, texts);
      const atProvider = parameterOf(request, 'error') === undefined ? [] : ['not_logged_in'];
      const isRefused = error instanceof Refusal && ['forbidden', 'name_taken', ...atProvider].includes(error.code);
      const link = isRefused
        ? { href: signOnAddress(back, { prompt: CHOOSE_ACCOUNT }), text: texts.logInOtherwise }
        : { href: signOnAddress(back), text: texts.logInAgain };
      return failurePage(trouble, texts, link, error instanceof Refusal ? texts.signOnRefused[error.code] : undefined);
    });

  route(SIGN_ON_PATHS.login, {}, async (request, reply) => {
    const { to, host } = backOf(request);
    try {
      const choosesAccount = parameterOf(request, 'prompt') === CHOOSE_ACCOUNT;
      const { url, pending } = await provider().begin({ choosesAccount });
      const cookies = logins.begin(request.headers.cookie, { ...pending, to, host });
      return leadTo(request, reply, url, cookies);
    } catch (error) {
      return refuse(request, reply, error, { to, host });
    }
  });

  const hintCookie = (value: string, maxAgeS: number): string =>
    `${HINT_COOKIE}=${value}; Path=${FOLDER}; Max-Age=${maxAgeS}; HttpOnly; SameSite=Strict${secureCookies ? '; Secure' : ''}`;

  route(SIGN_ON_PATHS.logout, {}, async (request, reply) => {
    try {
      refuseCrossSite(request, new Set());
      const { cookie } = request.headers;
      const hint = cookie === undefined ? undefined : cookieOf(cookie, HINT_COOKIE);
      const isOwn = hint !== undefined && (await visitorOf(request, control.access)) === null;
      const url = isOwn && loginProvider ? await loginProvider.logoutUrl(hint === NO_HINT ? null : hint) : null;
      return leadTo(request, reply, url ?? LOGIN_PATH, [hintCookie('', 0)]);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return leadTo(request, reply, LOGIN_PATH, []);
    }
  });

  const backchannel = { bodyLimit: MAX_FORM_BYTES, config: { audited: 'backchannelLogout' } };
  app.post(SIGN_ON_PATHS.backchannel, backchannel, async (request, reply) => {
    const { issuer, readLogout } = provider();
    const token = formOf(request, 'the login provider sends a "logout_token"').get('logout_token') ?? '';
    const accounts = await control.access.endProviderLogins({ issuer, ...(await readLogout(token)) });
    const note = auditNoteOf(request);
    note.credential = 'signature';
    note.subjects.push(...accounts);
    return setCommonHeaders(request, reply, JSON_TYPE).send('{}');
  });

  const signOn = async (request: FastifyRequest, pending: Pending) => {
    const { issuer, rules, finish } = provider();
    const { claims, idToken } = await finish(request.url.split('?')[1] ?? '', pending);
    try {
      const { identity, notice } = decideLogin(rules, issuer, claims);
      const { subject, username } = identity;
      if (notice !== null) log.warn({ issuer, subject, username }, `a login by the provider: ${notice}`);
      auditNoteOf(request).loginName = username;
      const login = await control.access.signOn(identity, rules, request.ip, request.headers['user-agent']);
      return { ...login, idToken };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const facts = { issuer, subject: claims['sub'], code: error.code, ...causeOf(error) };
      log.warn(facts, `a login by the provider was refused: ${error.message}`);
      throw error;
    }
  };

  route(SIGN_ON_PATHS.callback, { audited: 'signOn' }, async (request, reply) => {
    const state = parameterOf(request, 'state');
    // Back from a logout at the provider.
    if (!request.url.includes('?')) return leadTo(request, reply, LOGIN_PATH, []);
    const pending = logins.find(request.headers.cookie, state);
    const back: Back = pending ?? { to: '', host: '' };
    const ended = pending === null ? [] : [logins.end(pending.state)];
    const next = back.to === '' ? '/' : `${LOGIN_PATH}?${new URLSearchParams({ to: back.to, host: back.host })}`;
    try {
      provider();
      if (pending === null) throw notUnderWay();
      const { accessToken, accessExpire, otherName, idToken } = await once(pending, () => signOn(request, pending));
      request.caller = await control.access.authenticate({ kind: 'token', token: accessToken });
      const hint = idToken.length > MAX_HINT ? NO_HINT : idToken;
      const cookies = [
        accessCookie(accessToken, accessExpire, secureCookies),
        hintCookie(hint, accessExpire),
        ...ended,
      ];
      if (otherName === null) return leadTo(request, reply, next, cookies);
      const texts = formTextsFor(request);
      const body = [paragraph(texts.namedOtherwise(otherName)), linkTo({ href: next, text: texts.goOn })].join('\n');
      return sendPage(request, reply.header('set-cookie', cookies), 200, page(texts, texts.made, body));
    } catch (error) {
      reply.header('set-cookie', ended);
      const isLost = error instanceof Refusal && error.code === 'not_logged_in';
      if (!isLost || (await visitorOf(request, control.access)) === null) return refuse(request, reply, error, back);
      return leadTo(request, reply.header('x-error-code', error.code), next, ended);
    }
  });
}

const NO_HINT = 'none';

type Once = <Answer>(login: Pending, finish: () => Promise<Answer>) => Promise<Answer>;

/** Refuses a second callback of a login, whose code the provider may accept twice. */
function makeOnce(): Once {
  const finished = makeUsedKeys();
  return async ({ state, endsAtMs }, finish) => {
    if (!finished.use(state, endsAtMs)) throw notUnderWay();
    try {
      return await finish();
    } catch (error) {
      finished.release(state);
      throw error;
    }
  };
}

const causeOf = ({ detail }: Refusal): object => (typeof detail === 'object' && detail !== null ? detail : {});

const backOf = (request: FastifyRequest): Back => ({
  to: returnPart(parameterOf(request, 'to')),
  host: returnPart(parameterOf(request, 'host')),
});

const returnPart = (given: unknown): string => (typeof given === 'string' && given.length <= MAX_RETURN ? given : '');

const leadTo = (request: FastifyRequest, reply: FastifyReply, url: string, cookies: string[]): FastifyReply =>
  setCommonHeaders(request, reply, HTML_TYPE)
    .header('set-cookie', cookies)
    .header('referrer-policy', 'no-referrer')
    .redirect(url, 303);
