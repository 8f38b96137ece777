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

interface ServerPageDeps {
  control: Pick<Control, 'health'>;
  version: string;
  gatewayOrigin: string;
}

interface ServerPage {
  path: string;
  contentType: string;
  /** Called at the mount; the result, at each request. */
  makeBody(deps: ServerPageDeps): () => string | Promise<string>;
}

const pages: readonly ServerPage[] = [
  {
    path: '/',
    contentType: 'text/html; charset=utf-8',
    makeBody: (deps) => () => frontPage(deps),
  },
  {
    path: '/healthz',
    contentType: JSON_TYPE,
    makeBody: () => () => JSON.stringify({ alive: true }),
  },
  {
    path: '/readyz',
    contentType: JSON_TYPE,
    makeBody:
      ({ control }) =>
      async () => {
        const { ready, text } = await control.health();
        if (!ready) throw new Refusal('unavailable', text, { retryAfterS: 1 });
        return JSON.stringify({ ready, text });
      },
  },
  {
    path: `${BASE_PATH}/openapi.json`,
    contentType: JSON_TYPE,
    makeBody({ version }) {
      // The build at the first request does not delay the start.
      let document: string | undefined;
      return () => (document ??= JSON.stringify(openapiDocument({ version, errorKinds })));
    },
  },
];

export const serverPagePaths: ReadonlySet<string> = new Set(pages.map(({ path }) => path));

export function mountServerPages(app: FastifyInstance, deps: ServerPageDeps): void {
  for (const { path, contentType, makeBody } of pages) {
    const body = makeBody(deps);
    app.get(path, async (request, reply) => {
      const text = await body();
      return setCommonHeaders(request, reply, contentType).send(text);
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
