/**
 * Pages of the server about itself: GET without login. The route table leaves them out, since no
 * API client calls them: people read `/`, load balancers the probes, generators the table itself.
 */
import type { FastifyInstance } from 'fastify';
import { openapiDocument } from '../../contract/openapi.ts';
import { BASE_PATH } from '../../contract/routes.ts';
import type { Control } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { setCommonHeaders } from './mount.ts';
import { JSON_TYPE } from './refusal-reply.ts';
import { errorKinds } from './status.ts';

const HTML_TYPE = 'text/html; charset=utf-8';

interface ServerPageDeps {
  control: Pick<Control, 'health'>;
  version: string;
  gatewayOrigin: string;
}

/** Bodies by path. The outer function runs at the mount, the inner one at each request. */
const pages: Record<string, (deps: ServerPageDeps) => () => string | Promise<string>> = {
  '/': (deps) => () => frontPage(deps),
  '/healthz': () => () => JSON.stringify({ alive: true }),
  '/readyz':
    ({ control }) =>
    async () => {
      const { ready, text } = await control.health();
      if (!ready) throw new Refusal('unavailable', text, { retryAfterS: 1 });
      return JSON.stringify({ ready, text });
    },
  [`${BASE_PATH}/openapi.json`]({ version }) {
    // The build at the first request does not delay the start.
    let document: string | undefined;
    return () => (document ??= JSON.stringify(openapiDocument({ version, errorKinds })));
  },
};

export const serverPagePaths: ReadonlySet<string> = new Set(Object.keys(pages));

export function mountServerPages(app: FastifyInstance, deps: ServerPageDeps): void {
  for (const [path, makeBody] of Object.entries(pages)) {
    const body = makeBody(deps);
    app.get(path, async (request, reply) => {
      const text = await body();
      return setCommonHeaders(request, reply, path === '/' ? HTML_TYPE : JSON_TYPE).send(text);
    });
  }
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

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
