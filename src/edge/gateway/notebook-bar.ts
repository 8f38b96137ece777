/**
 * The bar in an owner's notebook, at `/notebook/<instanceId>/.berth/bar` and `…/stop`. The gateway
 * answers by itself: nothing is passed to the instance, and the page needs no token.
 */
import type { NotebookBar } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { errorKinds } from '../http/status.ts';
import { headersBesidesPolicy } from '../security-headers.ts';
import type { AccessGrant, Admission } from './admission.ts';
import { badRequest, drainOrCut, sendAnswer } from './answers.ts';
import type { ClientRequest, ClientResponse } from './client-exchange.ts';
import { headerOf, type Head } from './head.ts';
import { isLoopback } from './login-link.ts';

interface BarDeps {
  notebookBar: NotebookBar;
  apiUrl: string;
}

export interface BarRequest {
  req: ClientRequest;
  res: ClientResponse;
  head: Head;
  verb: string;
  admission: Admission;
  ownOrigin: string;
  /** Address of the client. */
  from: string;
}

const METHODS: Readonly<Record<string, string>> = { bar: 'GET', stop: 'POST' };

export async function answerBar(deps: BarDeps, request: BarRequest): Promise<void> {
  const { req, res, head, verb, admission } = request;
  if ('refused' in admission) return sendAnswer(req, res, admission.refused, head.accept);
  const method = METHODS[verb];
  if (req.method !== method) {
    const answer = badRequest('the bar of a notebook has GET bar and POST stop', method === undefined ? 404 : 405);
    return sendAnswer(req, res, { ...answer, headers: method === undefined ? [] : ['Allow', method] }, head.accept);
  }
  const { route, accessGrant } = admission;
  const owned = { ownerId: route.ownerId, instanceId: route.instanceId };
  try {
    if (verb === 'bar')
      return sendJson(req, res, { ...(await deps.notebookBar.read(owned)), ...linkOf(deps, request) });
    // A form, which HTML without scripts may contain, can't send this type.
    if (headerOf(head, 'content-type') !== 'application/json')
      return sendAnswer(req, res, badRequest('send a stop with the Content-Type application/json', 415), head.accept);
    const visitor = { address: request.from, userAgent: headerOf(head, 'user-agent') };
    await deps.notebookBar.stop(owned, { ...visitor, credential: credentialOf(accessGrant) });
    sendJson(req, res, {});
  } catch (error) {
    if (!(error instanceof Refusal) || error.code === 'unavailable') throw error;
    const { code, message } = error;
    sendAnswer(req, res, { code, message, ...errorKinds[code] }, head.accept);
  }
}

const linkOf = ({ apiUrl }: BarDeps, { admission, ownOrigin }: BarRequest): { consoleUrl: string | null } => ({
  consoleUrl:
    'refused' in admission || (isLoopback(apiUrl) && !isLoopback(ownOrigin))
      ? null
      : `${apiUrl}/instances/${admission.route.instanceId}`,
});

const credentialOf = (grant: AccessGrant): 'link' | 'apiKey' | 'login' => {
  if (grant.kind !== 'credential') return 'link';
  return grant.credential.kind === 'apiKey' ? 'apiKey' : 'login';
};

function sendJson(req: ClientRequest, res: ClientResponse, value: object): void {
  const body = Buffer.from(JSON.stringify(value));
  const headers = ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', String(body.length)];
  headers.push('Cache-Control', 'no-store', ...headersBesidesPolicy.flat());
  res.writeHead(200, undefined, headers);
  res.end(body);
  drainOrCut(req);
}
