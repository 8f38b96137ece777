/**
 * Pages of the server about itself: GET without login. The route table leaves them out, since no
 * API client calls them: people read `/`, load balancers the probes, generators the table itself.
 */
import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { openapiDocument } from '../../contract/openapi.ts';
import { BASE_PATH } from '../../contract/routes.ts';
import type { Control } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { encodeBody } from './compression.ts';
import { matchesEtagWeakly } from './conditions.ts';
import { escaped, HTML_TYPE } from './html.ts';
import { JSON_TYPE } from './refusal-reply.ts';
import { costOfFile, type RequestRates } from './request-rates.ts';
import { addVary, setCommonHeaders } from './reply-headers.ts';
import { errorKinds } from './status.ts';

interface ServerPageDeps {
  control: Pick<Control, 'health'>;
  version: string;
  prefix?: string;
  gatewayOrigin: string;
  /** The console answers `/`. */
  hasConsole: boolean;
  rates: Pick<RequestRates, 'takeOfAddress'>;
}

/** Bodies by path. The outer function runs at the mount, the inner one at each request. */
const pages: Record<string, (deps: ServerPageDeps) => () => string | Promise<string>> = {
  '/': (deps) => () => frontPage(deps),
  '/healthz': () => () => JSON.stringify({ alive: true }),
  '/readyz':
    ({ control }) =>
    async () => {
      const { ready, isDegraded, text } = await control.health();
      if (!ready) throw new Refusal('unavailable', text, { retryAfterS: 1 });
      return JSON.stringify({ ready, status: isDegraded ? 'degraded' : 'ok', text });
    },
};

export const serverPagePaths: readonly string[] = Object.keys(pages);

const DOCUMENT_PATH = `${BASE_PATH}/openapi.json`;

export function mountServerPages(app: FastifyInstance, deps: ServerPageDeps): void {
  for (const [path, makeBody] of Object.entries(pages)) {
    if (path === '/' && deps.hasConsole) continue;
    const body = makeBody(deps);
    app.get(path, async (request, reply) => {
      const text = await body();
      return setCommonHeaders(request, reply, path === '/' ? HTML_TYPE : JSON_TYPE).send(text);
    });
  }
  mountDocument(app, deps);
}

function mountDocument(app: FastifyInstance, { version, prefix = '', rates }: ServerPageDeps): void {
  let built: { bytes: Buffer; etag: string } | undefined;
  // The build at the first request does not delay the start.
  const build = (): { bytes: Buffer; etag: string } => {
    const bytes = Buffer.from(JSON.stringify(openapiDocument({ version, errorKinds, prefix })));
    // Weak: one tag for the plain and the compressed bytes.
    return { bytes, etag: `W/"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"` };
  };
  app.get(DOCUMENT_PATH, async (request, reply) => {
    const { bytes, etag } = (built ??= build());
    setCommonHeaders(request, reply, JSON_TYPE).header('cache-control', 'no-cache').header('etag', etag);
    addVary(reply, 'Accept-Encoding');
    const { 'if-none-match': known } = request.headers;
    if (known !== undefined && matchesEtagWeakly(known, etag)) return reply.code(304).send();
    rates.takeOfAddress(request.ip, reply, costOfFile(bytes.length));
    return encodeBody(request, reply, bytes);
  });
}

const frontPage = ({ version, gatewayOrigin }: ServerPageDeps): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Berth</title>
<h1>Berth ${escaped(version)}</h1>
<p>A cloud of notebook instances. This address serves its API, under <code>/api</code>.</p>
<ul>
<li><a href="/api/openapi.json">The API document</a> (OpenAPI 3.1)</li>
<li><a href="/readyz">Whether the server is ready</a></li>
</ul>
<p>Notebooks and forwarded ports of instances are at <code>${escaped(gatewayOrigin)}</code>.</p>
</html>
`;
