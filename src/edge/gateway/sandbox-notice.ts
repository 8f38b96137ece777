/** A line at the end of pages in a sandbox, where apps of several files stay blank. */
import type { Authorized } from './admission.ts';
import { linkText } from './answers.ts';
import type { Head } from './head.ts';
import { isLoopback, loginLink } from './login-link.ts';
import type { ResponseHead } from './response-head.ts';
import type { InstanceTarget } from './routing.ts';

const isSandboxedPage = ({ head, method, target, authorized: { owner } }: Visit): boolean => {
  if (owner || target.mount !== 'forward') return false;
  if (head.fetchMode !== null) return head.fetchMode === 'navigate' && head.fetchDest === 'document';
  return method === 'GET' && head.origin === null && head.accept.includes('text/html');
};

interface Visit {
  head: Head;
  method: string;
  authorized: Authorized;
  target: InstanceTarget;
  apiUrl: string;
  ownOrigin: string;
}

export function sandboxNotice(visit: Visit): string | null {
  if (!isSandboxedPage(visit)) return null;
  const { authorized, target, apiUrl, ownOrigin } = visit;
  const address = authorized.route.nodePorts.get(target.port);
  const url = address === undefined ? null : `http://${address}/`;
  const helps = [
    url !== null && leadsThere(url, apiUrl, ownOrigin) ? `open it at ${linkText({ href: url, text: url })}` : null,
    url === null ? null : 'ask its owner for the address of its node port',
    'the operator can give each port a host of its own (<code>BERTH_DOMAIN</code>)',
  ];
  const login = loginLink({ apiUrl, ownOrigin, target }, 'log in');
  const ways = [...helps, login && `if the instance is yours, ${linkText(login)}`].filter((one) => one !== null);
  return `
<div style="${STYLE}"><b>Shown in a sandbox.</b> All instances share this address, so this page has no storage and no
logins, and cannot load some of its own files. If it stays blank or does not work: ${ways.join('; ')}.</div>
`;
}

/** Cookies ignore ports: a node port on the host of the API would get the visitor's login. */
const leadsThere = (url: string, apiUrl: string, ownOrigin: string): boolean =>
  new URL(url).hostname !== new URL(apiUrl).hostname && (!isLoopback(url) || isLoopback(ownOrigin));

const STYLE =
  'all:initial;position:fixed;z-index:2147483647;left:0;right:0;bottom:0;padding:.6rem 1rem;' +
  'font:14px/1.5 system-ui,sans-serif;color:#111;background:#fff4ce;border-top:1px solid #d9b24c';

export function takesNotice({ status, raw }: ResponseHead): boolean {
  if (status < 200 || status === 204 || status === 206 || status === 304) return false;
  let isHtml = false;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const value = (raw[at + 1] ?? '').trim().toLowerCase();
    switch (raw[at]?.toLowerCase()) {
      case 'content-type':
        isHtml = /^text\/html(?:\s*;|$)/.test(value) && !/charset="?utf-?16/.test(value);
        break;
      case 'content-encoding':
        if (value !== 'identity') return false;
        break;
      case 'content-disposition':
        if (!value.startsWith('inline')) return false;
        break;
      default:
    }
  }
  return isHtml;
}
