/** Requests to any route, made from its schema and the ids of one account. */
import { request } from 'node:http';
import { exampleOf } from '../../../src/contract/examples.ts';
import type { JsonRoute, Route } from '../../../src/contract/route.ts';
import { BASE_PATH, routeOf, type RouteName } from '../../../src/contract/routes.ts';

/** A body with the ids that satisfies every route. */
export const bodyOf = (ids: Record<string, string | undefined>): object => ({
  ...ids,
  id: ids['volumeId'],
  name: 'hostile',
  port: 8002,
  access: 'public',
  seconds: 60,
  minutes: 1,
  sizeGB: 2,
  dataDiskSize: 100,
  path: '',
  command: ['true'],
  names: ['A'],
  month: '2026-11',
  terminal: 'one',
  source: 'console',
  labels: {},
  subjectId: ids['instanceId'],
  pager: { currentPage: 1, pageSize: 10 },
});

/** Members of a body that the route has. */
export const fieldsOf = (name: RouteName, body: object): object => {
  const route = routeOf(name);
  const schema = route.kind === 'json' ? route.body : route.query;
  const shape: object = 'shape' in schema ? Object(schema.shape) : {};
  return Object.fromEntries(Object.entries(body).filter(([field]) => field in shape));
};

/** Fields of a route that hold an id. */
export const idsOf = (name: RouteName): string[] => {
  const route = routeOf(name);
  const schema = route.kind === 'json' ? route.body : route.query;
  const shape: unknown = 'shape' in schema ? schema.shape : {};
  const inPath = route.path.includes('{id}') ? ['id'] : [];
  return [
    ...Object.keys(shape ?? {}).filter((field) => /^id$|Id$/.test(field) && field !== 'instanceTypeId'),
    ...inPath,
  ];
};

/** Path and query of a stream, with the values a JSON route has in its body. */
export function streamTarget(route: Exclude<Route, JsonRoute>, values: Record<string, unknown>): string {
  const shape: unknown = 'shape' in route.query ? route.query.shape : {};
  const query = new URLSearchParams();
  for (const field of Object.keys(shape ?? {}))
    if (/Id$|^command$|^month$/.test(field)) query.set(field, String(values[field]));
  return `${route.path.replace('{id}', String(values['id'])).replace('{path}', 'a')}?${query}`;
}

export interface RouteRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | null;
}

/** A valid request, from the examples of the API document. */
export function exampleRequest(name: RouteName): RouteRequest {
  const route = routeOf(name);
  const { method } = route;
  if (route.kind === 'json') {
    const body = method === 'POST' ? JSON.stringify(exampleOf(route.body)) : null;
    return { method, path: BASE_PATH + route.path, headers: { 'content-type': 'application/json' }, body };
  }
  const values = { id: 'unknown', ...Object(exampleOf(route.query)) };
  return {
    method,
    path: BASE_PATH + streamTarget(route, values),
    headers: route.kind === 'socket' ? upgradeHeaders(route.protocol) : {},
    body: method === 'PUT' ? 'x' : null,
  };
}

const upgradeHeaders = (protocol: string): Record<string, string> => ({
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  'sec-websocket-protocol': protocol,
});

export interface ReceivedHead {
  status: number;
  code: string | undefined;
  message: string;
}

/** Sends a request. Text of the answer is read from refusals alone: streams do not end. */
export const sendRoute = (
  port: number,
  { method, path, headers, body }: RouteRequest,
  credential: Record<string, string>,
): Promise<ReceivedHead> =>
  new Promise((resolve, reject) => {
    const length = body === null ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const sent = request({ host: '127.0.0.1', port, method, path, headers: { ...headers, ...length, ...credential } });
    sent.once('error', reject);
    sent.once('upgrade', (_response, socket) => {
      socket.destroy();
      resolve({ status: 101, code: undefined, message: '' });
    });
    sent.once('response', (response) => {
      const { statusCode: status = 0 } = response;
      const code = response.headers['x-error-code'];
      const head = { status, code: code === undefined ? undefined : String(code) };
      if (status < 400) {
        response.destroy();
        resolve({ ...head, message: '' });
        return;
      }
      let message = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => (message += piece));
      response.once('end', () => resolve({ ...head, message }));
    });
    sent.end(body ?? undefined);
  });
