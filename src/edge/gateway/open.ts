import type { Forwarding } from '../../control/index.ts';
import { badRequest, sendAnswer } from './answers.ts';
import type { Answer } from './answers.ts';
import type { ClientRequest, ClientResponse } from './client-exchange.ts';
import { isSecure, sessionCookie, sessionSecretOf } from './cookies.ts';
import type { Head } from './head.ts';
import { OPEN_ON_HOSTS, portOf } from './routing.ts';

export interface OpenDeps {
  forwarding: Pick<Forwarding, 'redeem' | 'session'>;
  apiOrigin: () => string;
}

export interface OpenRequest {
  req: ClientRequest;
  res: ClientResponse;
  head: Head;
  query: string;
  /** Port whose own host was addressed; null: the gateway's host. */
  at: { instanceId: string; port: number } | null;
  ownOrigin: string;
}

export async function open(deps: OpenDeps, authRequest: OpenRequest): Promise<void> {
  const { req, res, head } = authRequest;
  const answer = await answerOpen(deps, authRequest);
  sendAnswer(req, res, answer, head.accept);
}

async function answerOpen(deps: OpenDeps, { req, head, query, at, ownOrigin }: OpenRequest): Promise<Answer> {
  // A HEAD of a link previewer must not consume the key.
  if (req.method !== 'GET') return { ...badRequest('the link is opened with GET', 405), headers: ['Allow', 'GET'] };
  const search = new URLSearchParams(query);
  const key = search.get('key');
  const portText = search.get('port');
  const port = portText === null ? null : portOf(portText);
  if (key === null || key === '')
    return badRequest('the link has no key: take the whole link that the console or the API gave');
  if (portText !== null && port === null) return badRequest('the port of the link is not a number from 1 to 65535');
  if (openedByOtherOrigin(deps.apiOrigin(), head, ownOrigin)) return confirmation(at, key, port);
  const redeemed = await deps.forwarding.redeem(key);
  if (redeemed === null) return spent(deps.apiOrigin());
  // An instance's host must not open another instance.
  if (at !== null && redeemed.instanceId !== at.instanceId) return spent(deps.apiOrigin());
  const place =
    at !== null
      ? '/'
      : port === null
        ? `/notebook/${redeemed.instanceId}/`
        : `/forward/${redeemed.instanceId}/${port}/`;
  const headers = ['Location', place, 'Set-Cookie', sessionCookie(redeemed.session, isSecure(ownOrigin))];
  const before = sessionSecretOf(head.cookies, isSecure(ownOrigin));
  const accountBefore = before === null ? null : ((await deps.forwarding.session(before))?.accountId ?? null);
  // Not cookies: the console on the same host needs its own.
  if (accountBefore !== redeemed.accountId) headers.push('Clear-Site-Data', '"cache", "storage"');
  return {
    status: 303,
    code: 'internal',
    title: 'Opening',
    message: 'the instance is at the address in Location',
    headers,
  };
}

/**
 * Whether another origin's page triggered the request. Without Sec-Fetch-* only the Referer tells.
 */
function openedByOtherOrigin(apiOrigin: string, { fetchSite, referer }: Head, ownOrigin: string): boolean {
  if (fetchSite === 'none' || fetchSite === 'same-origin') return false;
  const from = originOf(referer);
  if (from === apiOrigin) return false;
  return fetchSite !== null || (from !== null && from !== ownOrigin);
}

const originOf = (referer: string | null): string | null => {
  if (referer === null) return null;
  return URL.canParse(referer) ? new URL(referer).origin : 'unreadable';
};

const confirmation = (at: OpenRequest['at'], key: string, port: number | null): Answer => ({
  status: 200,
  code: 'forbidden',
  title: 'Open this instance?',
  message:
    'another page wants to open an instance here, and from then on this gateway shows you that instance with the rights of ' +
    'its account. Go on only if the link is from your own console',
  link: {
    href: `${at === null ? '/open' : OPEN_ON_HOSTS}?key=${encodeURIComponent(key)}${port === null ? '' : `&port=${port}`}`,
    text: 'Go on, the link is mine',
  },
});

const spent = (apiOrigin: string): Answer => ({
  status: 410,
  code: 'not_found',
  title: 'This link has been used',
  message:
    'such a link opens an instance once, and for a minute: open the instance from the console again, or ask the API for a new link',
  link: { href: `${apiOrigin}/`, text: 'Go to the console' },
});
