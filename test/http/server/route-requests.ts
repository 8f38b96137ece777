/** Requests to any route, made from its schema and the ids of one account. */
import type { JsonRoute, Route } from '../../../src/contract/route.ts';
import { routeOf, type RouteName } from '../../../src/contract/routes.ts';

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
  terminal: 'one',
  source: 'console',
  labels: {},
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
    if (/Id$|^command$/.test(field)) query.set(field, String(values[field]));
  return `${route.path.replace('{id}', String(values['id'])).replace('{path}', 'a')}?${query}`;
}
