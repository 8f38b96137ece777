/**
 * Login by the operator's provider of OpenID Connect: `GET /api/user/oidc/login` leads to it, and
 * it leads back to the callback. What the two share is in a sealed cookie, so that no other
 * browser finishes the login. The key of the seal is lost with the process, as are the finished
 * logins: a restart ends each login under way.
 */
import { randomBytes } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import { z } from 'zod';
import { BASE_PATH } from '../../../contract/routes.ts';
import { makeSeal, type Control } from '../../../control/index.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { identityOf } from '../../../domain/access/sign-on-rules.ts';
import { LOGIN_PATH } from '../../gateway/login-link.ts';
import { auditNoteOf } from '../audit-hook.ts';
import { accessCookie, cookieOf } from '../credentials.ts';
import { failurePage, refuseOnPage } from './form-page.ts';
import { HTML_TYPE } from '../html.ts';
import type { LoginProvider } from './login-provider.ts';
import { setCommonHeaders } from '../reply-headers.ts';
import { parameterOf } from '../request.ts';

const FOLDER = `${BASE_PATH}/user/oidc`;
export const SIGN_ON_PATHS = { login: `${FOLDER}/login`, callback: `${FOLDER}/callback` } as const;

const COOKIE = 'berth_oidc';
const ABOUT = 'login by a provider';
const LIFE_S = 600;
const MAX_RETURN = 2_000;

/** `expiresAtMs` is of the monotonic clock: the seal is of this process. */
const stored = z.object({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  to: z.string(),
  host: z.string(),
  expiresAtMs: z.number(),
});

type Pending = z.output<typeof stored>;

const notUnderWay = (): Refusal =>
  new Refusal(
    'not_logged_in',
    `no login is under way in this browser, or it took longer than ${LIFE_S / 60} minutes: begin again at ${SIGN_ON_PATHS.login}`,
  );

export const signOnAddress = ({ to, host }: { to: string; host: string }): string =>
  `${SIGN_ON_PATHS.login}?${new URLSearchParams({ to, host })}`;

interface SignOnDeps {
  control: Pick<Control, 'access'>;
  loginProvider?: LoginProvider | null;
  secureCookies: boolean;
}

export function mountSignOn(app: FastifyInstance, { control, loginProvider = null, secureCookies }: SignOnDeps): void {
  const seal = makeSeal({ key: randomBytes(32), randomBytes });

  /** Ends of finished logins by state: a provider may accept a code twice. */
  const finished = new Map<string, number>();

  /** Runs `login` unless another callback of the same login has succeeded or is under way. */
  const once = async <Answer>({ state, expiresAtMs }: Pending, login: () => Promise<Answer>): Promise<Answer> => {
    for (const [earlier, endsAtMs] of finished) {
      if (performance.now() < endsAtMs) break;
      finished.delete(earlier);
    }
    if (finished.has(state)) throw notUnderWay();
    finished.set(state, expiresAtMs);
    try {
      return await login();
    } catch (error) {
      finished.delete(state);
      throw error;
    }
  };

  const provider = (): LoginProvider => {
    if (loginProvider !== null) return loginProvider;
    const message =
      'this server has no login provider: log in with name and password, or the operator sets BERTH_OIDC_ISSUER';
    throw new Refusal('not_found', message);
  };

  const cookie = (value: string, maxAgeS: number): string =>
    `${COOKIE}=${value}; Path=${FOLDER}; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax${secureCookies ? '; Secure' : ''}`;

  const pendingOf = (header: string | undefined): Pending => {
    const sealed = header === undefined ? undefined : cookieOf(header, COOKIE);
    const text = sealed === undefined ? null : seal.open(sealed, ABOUT);
    const pending = text === null ? null : stored.parse(JSON.parse(text));
    if (pending !== null && performance.now() < pending.expiresAtMs) return pending;
    throw notUnderWay();
  };

  const route = (url: string, config: { audited?: string | null }, handler: RouteHandlerMethod): void =>
    void app.route({ method: 'GET', url, exposeHeadRoute: false, config, handler });

  const refuse = (request: FastifyRequest, reply: FastifyReply, error: unknown, back: Back): FastifyReply =>
    refuseOnPage(request, reply, error, (trouble, texts) =>
      loginProvider === null
        ? failurePage(trouble, texts)
        : failurePage(trouble, texts, { href: signOnAddress(back), text: texts.logInAgain }),
    );

  route(SIGN_ON_PATHS.login, {}, async (request, reply) => {
    const { to, host } = backOf(request);
    try {
      const { url, pending } = await provider().begin();
      const content = { ...pending, to, host, expiresAtMs: performance.now() + LIFE_S * 1_000 };
      return leadTo(setCommonHeaders(request, reply, HTML_TYPE), url, [
        cookie(seal.seal(JSON.stringify(content), ABOUT), LIFE_S),
      ]);
    } catch (error) {
      return refuse(request, reply, error, { to, host });
    }
  });

  route(SIGN_ON_PATHS.callback, { audited: 'signOn' }, async (request, reply) => {
    let back: Back = { to: '', host: '' };
    try {
      const { issuer, rules, finish } = provider();
      const pending = pendingOf(request.headers.cookie);
      back = pending;
      const { accessToken, accessExpire } = await once(pending, async () => {
        const claims = await finish(request.url.split('?')[1] ?? '', pending);
        const identity = identityOf(rules, issuer, claims);
        auditNoteOf(request).loginName = identity.username;
        return control.access.signOn(identity, rules, request.ip, request.headers['user-agent']);
      });
      request.caller = await control.access.authenticate({ kind: 'token', token: accessToken });
      const cookies = [accessCookie(accessToken, accessExpire, secureCookies), cookie('', 0)];
      const { to, host } = back;
      const target = to === '' ? '/' : `${LOGIN_PATH}?${new URLSearchParams({ to, host })}`;
      return leadTo(setCommonHeaders(request, reply, HTML_TYPE), target, cookies);
    } catch (error) {
      reply.header('set-cookie', cookie('', 0));
      return refuse(request, reply, error, back);
    }
  });
}

interface Back {
  to: string;
  host: string;
}

const backOf = (request: FastifyRequest): Back => ({
  to: returnPart(parameterOf(request, 'to')),
  host: returnPart(parameterOf(request, 'host')),
});

const returnPart = (given: unknown): string => (typeof given === 'string' && given.length <= MAX_RETURN ? given : '');

const leadTo = (reply: FastifyReply, url: string, cookies: string[]): FastifyReply =>
  reply.header('set-cookie', cookies).header('referrer-policy', 'no-referrer').redirect(url, 303);
