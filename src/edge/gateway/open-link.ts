import type { Forwarding, Visitor } from '../../control/index.ts';
import { badRequest, linkUsed, opening, type Answer } from './answers.ts';
import { isSecure, sessionCookie, sessionSecretOf } from './cookies.ts';
import { headerOf, type Head } from './head.ts';
import { loginLink, returnTarget } from './login-link.ts';
import { OPEN_ON_HOSTS, portOf } from './routing.ts';
import { addressWithout } from './share-token.ts';

export interface OpenDeps {
  forwarding: Pick<Forwarding, 'redeem' | 'session'>;
  apiUrl: string;
  portDomain: string | null;
}

export interface OpenLinkRequest {
  method: string;
  head: Head;
  query: string;
  /** Port whose own host was addressed; null: the gateway's host. */
  target: { instanceId: string; port: number } | null;
  ownOrigin: string;
  /** Address of the visitor. */
  from: string;
}

export async function open(deps: OpenDeps, request: OpenLinkRequest): Promise<Answer> {
  const { method, head, query, target: at, ownOrigin } = request;
  // A HEAD of a link previewer must not consume the key.
  if (method !== 'GET') return { ...badRequest('open the link with GET', 405), headers: ['Allow', 'GET'] };
  const search = new URLSearchParams(query);
  const key = search.get('key');
  const portText = search.get('port');
  const port = portText === null ? null : portOf(portText);
  if (key === null || key === '')
    return badRequest('the link has no key: use the whole link that the console or the API returned');
  if (portText !== null && port === null) return badRequest('the port of the link is not a number from 1 to 65535');
  const to = search.get('to') ?? (at === null ? null : '/');
  const target = to === null ? null : returnTarget(head.host, to, deps.portDomain);
  if (to !== null && target === null)
    return badRequest('the address "to" of the link is not the path of an instance: use the whole link');
  if (openedByOtherOrigin(new URL(deps.apiUrl).origin, head, ownOrigin)) return confirmation(at, search);
  const redeemed = await deps.forwarding.redeem(key, visitorOf(request));
  // An instance's host, or address, must not open another instance.
  if (redeemed === null || (target !== null && redeemed.instanceId !== target.instanceId))
    return linkUsed(target && loginLink({ apiUrl: deps.apiUrl, ownOrigin, target }));
  const path =
    target !== null
      ? addressWithout(target)
      : port === null
        ? `/notebook/${redeemed.instanceId}/`
        : `/forward/${redeemed.instanceId}/${port}/`;
  const answer = opening('instance', path, sessionCookie(redeemed.session, isSecure(ownOrigin)));
  const before = sessionSecretOf(head.cookies, isSecure(ownOrigin));
  const accountBefore = before === null ? null : ((await deps.forwarding.session(before))?.accountId ?? null);
  if (accountBefore === redeemed.accountId) return answer;
  // Not cookies: the console on the same host needs its own.
  return { ...answer, headers: [...(answer.headers ?? []), 'Clear-Site-Data', '"cache", "storage"'] };
}

export const visitorOf = ({ head, from }: Pick<OpenLinkRequest, 'head' | 'from'>): Visitor => ({
  address: from,
  userAgent: headerOf(head, 'user-agent'),
});

/** Whether another origin's page sent the request. Without Sec-Fetch-* only the Referer tells. */
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

const confirmation = (at: OpenLinkRequest['target'], search: URLSearchParams): Answer => ({
  status: 200,
  code: 'forbidden',
  title: 'Open this instance?',
  message:
    'another page wants to open an instance here, and this gateway would then show you the instance with the rights of ' +
    'its account. Continue only if the link is from your own console',
  link: {
    href: `${at === null ? '/open' : OPEN_ON_HOSTS}?${search.toString()}`,
    text: 'Continue, the link is mine',
  },
});
