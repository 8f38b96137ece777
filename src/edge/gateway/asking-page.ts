/** Finds the port whose page asks for a path at the root. A hint: the caller authorizes. */
import { appOf } from './cookies.ts';
import type { Head } from './head.ts';
import { targetOf, type InstanceTarget } from './routing.ts';

interface AskingRequest {
  head: Head;
  path: string;
  upgrade: boolean;
  ownOrigin: string;
  portDomain: string | null;
}

export function targetOfPage(asking: AskingRequest): InstanceTarget | null {
  const { head, path } = asking;
  // A worker of the root would serve the pages of all instances.
  if (head.serviceWorkerScript || OURS.some((prefix) => path.startsWith(prefix))) return null;
  const page = pageOf(asking);
  if (page === null) return null;
  const { instanceId, port, prefix } = page;
  return { kind: 'instance', mount: 'forward', instanceId, port, prefix, upstreamPath: path, withSlash: null };
}

const OURS = ['/notebook/', '/forward/', '/.berth/'];

/** The page of the `Referer`; else, as for WebSockets, the app that the browser opened last. */
function pageOf({ head, upgrade, ownOrigin, portDomain }: AskingRequest): InstanceTarget | null {
  const referer = head.referer !== null && URL.canParse(head.referer) ? new URL(head.referer) : null;
  const isOwn = referer?.origin === ownOrigin;
  if (referer !== null && isOwn) {
    const from = targetOf(head.host, referer.pathname, portDomain);
    if (from.kind === 'instance') return from.mount === 'forward' ? from : null;
  }
  const sent = head.origin ?? (isOwn && head.fetchSite === null ? ownOrigin : null);
  if (sent === null ? upgrade || head.fetchSite !== 'same-origin' : sent !== ownOrigin) return null;
  return forwardOf(appOf(head.cookies), head.host, portDomain);
}

function forwardOf(app: string | null, host: string, portDomain: string | null): InstanceTarget | null {
  const target = app === null ? null : targetOf(host, `/forward/${app}/`, portDomain);
  return target?.kind === 'instance' && target.mount === 'forward' ? target : null;
}
