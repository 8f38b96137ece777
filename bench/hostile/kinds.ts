/** Kinds of hostile requests: each route, with its example and with its largest body. */
import { z } from 'zod';
import { MAX_BODY_BYTES, MAX_BODY_DEPTH, MAX_BODY_MEMBERS, MAX_PAGE_SIZE } from '../../src/contract/common.ts';
import { exampleOf, type Json } from '../../src/contract/examples.ts';
import type { JsonRoute } from '../../src/contract/route.ts';
import { BASE_PATH, jsonRouteNames, jsonRouteOf, routeNames, routeOf } from '../../src/contract/routes.ts';
import { bodyLimitOf, boundOf, unwrapSchema } from '../../src/contract/schema-bounds.ts';
import { costOf, costOfBody } from '../../src/edge/http/request-rates.ts';
import { bodyOf, exampleRequest, fieldsOf, type RouteRequest } from '../../test/http/server/route-requests.ts';

export type Sender = 'account' | 'admin' | 'unauthenticated';

export interface Kind {
  name: string;
  sender: Sender;
  target: 'api' | 'gateway';
  /** Sent in turn. */
  requests: RouteRequest[];
  /** Requests a second that the rate limits let through, before what an answer costs. */
  perSecond: number;
  /** Whether the load phase measures it, however cheap one request is. */
  isSuspect: boolean;
}

export interface HostileIds {
  instanceId: string;
  /** Has all operations and events of the seed. */
  busyInstanceId: string;
  volumeId: string;
  accountId: string;
  regionId: string;
  imageId: string;
  instanceTypeId: string;
  username: string;
}

const ACCOUNT_PER_SECOND = 500;
const ADDRESS_PER_SECOND = 2_000;
const JSON_TYPE = { 'content-type': 'application/json' };
const FORM_TYPE = { 'content-type': 'application/x-www-form-urlencoded' };
/** Leave textBytes for the members of the body around them. */
const MEMBERS = MAX_BODY_MEMBERS - 10;
const MEMBER_BYTES = 63;
const PAGES = [1, 5, 20];
const SPELLINGS = 1_000;
const DAY_MS = 86_400_000;

export function hostileKinds(ids: HostileIds): Kind[] {
  return [
    ...controlKinds,
    ...routeKinds(ids),
    ...bodyKinds(ids),
    ...reportKinds(ids),
    ...listKinds(ids),
    ...unauthenticatedKinds(ids),
  ];
}

const kind = (
  name: string,
  sender: Sender,
  requests: RouteRequest[],
  { cost = 1, target = 'api', isSuspect = false }: { cost?: number; target?: Kind['target']; isSuspect?: boolean } = {},
): Kind => {
  const [first] = requests;
  const whole = cost + costOfBody(first?.body?.length ?? 0);
  const perSecond = (sender === 'unauthenticated' ? ADDRESS_PER_SECOND : ACCOUNT_PER_SECOND) / whole;
  return { name, sender, target, requests, perSecond, isSuspect };
};

const post = (path: string, body: unknown): RouteRequest => ({
  method: 'POST',
  path: BASE_PATH + path,
  headers: JSON_TYPE,
  body: typeof body === 'string' ? body : JSON.stringify(body),
});
const get = (path: string, headers: Record<string, string> = {}): RouteRequest => ({
  method: 'GET',
  path,
  headers,
  body: null,
});

/** Routes whose example would end the credential of the bench, or the server's regions. */
const ENDING = /logout|session\/delete|login\/delete|password|key\/delete|admin\/.*(delete|drain|remove|uninstall)/;

function routeKinds(ids: HostileIds): Kind[] {
  const members = bodyOf({ ...ids });
  return routeNames.flatMap((name) => {
    const route = routeOf(name);
    const sender =
      route.who === 'anyone' ? 'unauthenticated' : route.who !== 'account' && route.reads ? 'admin' : 'account';
    if (ENDING.test(route.path) && sender !== 'unauthenticated') return [];
    const cost = route.who === 'anyone' ? 1 : costOf(route);
    const example = exampleRequest(name);
    if (route.kind !== 'json') return [kind(name, sender, [withIds(example, ids)], { cost })];
    const valid = { ...Object(exampleOf(route.body)), ...fieldsOf(name, members), ...billed(route) };
    const largest = JSON.stringify(largestOf(route));
    return [
      kind(name, sender, [{ ...example, body: example.body === null ? null : JSON.stringify(valid) }], { cost }),
      ...(largest.length > 512
        ? [kind(`${name}, largest body`, sender, [{ ...example, body: largest }], { cost })]
        : []),
    ];
  });
}

/** Requests without which a launch of the example ends at its form. */
const billed = (route: JsonRoute): object =>
  'billing' in Object(Object(route.body)['shape']) ? { billing: { chargeMode: 'perHour', duration: 1 } } : {};

const withIds = (request: RouteRequest, ids: HostileIds): RouteRequest => ({
  ...request,
  path: request.path.replace('/unknown/', `/${ids.volumeId}/`).replaceAll(/notebook-[-0-9a-f]{36}/g, ids.instanceId),
});

/** A body of the most members and bytes that the schema of the route allows, within its limit. */
function largestOf(route: JsonRoute): Json {
  let bytes = bodyLimitOf(route) - 512;
  let members = MEMBERS;
  const fill = (schema: z.core.$ZodType): Json => {
    const inner = unwrapSchema(schema);
    if (inner instanceof z.ZodObject)
      return Object.fromEntries(
        Object.entries<z.core.$ZodType>(inner.shape).map(([name, field]) => {
          members -= 1;
          bytes -= name.length + 4;
          return [name, fill(field)];
        }),
      );
    if (inner instanceof z.ZodArray) return repeat(boundOf(inner), () => fill(inner.element));
    if (inner instanceof z.ZodRecord)
      return Object.fromEntries(
        repeat(MEMBERS, (index) => {
          bytes -= 10 + MEMBER_BYTES;
          // The JSON Schema of a record bounds its texts; the schema of a text may not.
          return [
            `K${index}`,
            inner.valueType instanceof z.ZodString ? 'x'.repeat(MEMBER_BYTES) : fill(inner.valueType),
          ];
        }),
      );
    if (inner instanceof z.ZodEnum) return inner.options[0] ?? null;
    if (inner instanceof z.ZodBoolean) return true;
    if (inner instanceof z.ZodNumber) return Math.max(0, inner.minValue ?? 0);
    return filled(schema);
  };
  const repeat = <Item>(most: number, one: (index: number) => Item): Item[] => {
    const items: Item[] = [];
    for (; items.length < most && members > 0 && bytes > 0; members -= 1) items.push(one(items.length));
    return items;
  };
  const filled = (schema: z.core.$ZodType): string => {
    const { type } = unwrapSchema(schema)._zod.def;
    if (type !== 'string') return 'x';
    const text = 'x'.repeat(Math.max(0, Math.min(bytes, boundOf(unwrapSchema(schema)))));
    bytes -= text.length;
    return text;
  };
  return fill(route.body);
}

/** Bodies of 1 MiB that reach the parser or its limits, to routes with and without a login. */
function bodyKinds({ instanceId }: HostileIds): Kind[] {
  const page = '"pager":{"currentPage":1,"pageSize":10}';
  const textBytes = MAX_BODY_BYTES - 256;
  const textOf = (length: number) => 'x'.repeat(Math.floor(length));
  const many = Array.from(
    { length: MEMBERS },
    (_, index) => `"k${index}":"${textOf(textBytes / MEMBERS - 12)}"`,
  ).join();
  const deep = `${'['.repeat(MAX_BODY_DEPTH - 2)}"${textOf(textBytes - 2 * MAX_BODY_DEPTH)}"${']'.repeat(MAX_BODY_DEPTH - 2)}`;
  const bodies: [string, string][] = [
    ['1 MiB of members', `{${page},"labels":{${many}}}`],
    ['1 MiB of unknown members', `{${page},${many}}`],
    [
      '1 MiB of numbers',
      `{${page},"status":[${Array(MEMBERS)
        .fill(`0.${'1'.repeat(textBytes / MEMBERS - 4)}`)
        .join()}]}`,
    ],
    ['1 MiB deep', `{${page},"name":${deep}}`],
    ['1 MiB of escapes', `{${page},"name":"${'\\u0041'.repeat(textBytes / 6)}"}`],
    ['1 MiB of spaces', `{${page}${' '.repeat(textBytes)}}`],
    ['4 KiB of members', `{${page},${Array.from({ length: 500 }, (_, index) => `"${index}":0`).join()}}`],
    ['1 MiB of commas', `{${page},"a":[${','.repeat(textBytes)}]}`],
  ];
  return bodies.flatMap(([name, body]) => [
    kind(`listInstances, ${name}`, 'account', [post('/instance/list', body)], { isSuspect: true }),
    kind(`getInstance of another, ${name}`, 'account', [
      post('/instance/get', body.replace(page, `"instanceId":"${instanceId}"`)),
    ]),
    kind(`login, ${name}`, 'unauthenticated', [post('/user/login', body)]),
  ]);
}

/** What the others are compared with, once more: their ratios are what the machine does. */
const controlKinds: Kind[] = [
  kind('control: GET /api/balance', 'account', [get('/api/balance')], { isSuspect: true }),
  kind('control: GET /api/balance', 'admin', [get('/api/balance')], { isSuspect: true }),
  kind('control: GET /healthz', 'unauthenticated', [get('/healthz')], { isSuspect: true }),
];

export const isControl = ({ name }: Pick<Kind, 'name'>): boolean => name.startsWith('control: ');

/** Reports over all data, in months, time zones and spellings. */
function reportKinds({ instanceId }: HostileIds): Kind[] {
  const months = [0, 1].map((back) => {
    const date = new Date();
    return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - back, 1)).toISOString().slice(0, 7);
  });
  const zones = Array.from({ length: SPELLINGS }, (_, spelling) =>
    spelled('America/Argentina/ComodRivadavia', spelling),
  );
  const [month = ''] = months;
  const pager = { currentPage: 1, pageSize: MAX_PAGE_SIZE };
  const untilUnixMs = Date.now();
  const usage = { fromUnixMs: untilUnixMs - 30 * DAY_MS, untilUnixMs, by: 'hour', pager };
  const suspect = { isSuspect: true };
  return [
    ...(['statement.csv', 'statement.html', 'focus.csv'] as const).map((file) =>
      kind(
        file,
        'account',
        months.map((one) => get(`${BASE_PATH}/billing/${file}?month=${one}`)),
        suspect,
      ),
    ),
    kind(
      'statement.csv in a time zone of many spellings',
      'account',
      zones.map((zone) =>
        get(`${BASE_PATH}/billing/statement.csv?month=${month}&timeZone=${encodeURIComponent(zone)}`),
      ),
      suspect,
    ),
    kind(
      'statement',
      'account',
      months.map((one) => post('/billing/statement', { month: one, pager })),
      suspect,
    ),
    kind(
      'statement in a time zone of many spellings',
      'account',
      zones.map((timeZone) => post('/billing/statement', { month, pager, timeZone })),
    ),
    kind('usage by hours', 'account', [post('/billing/usage', usage)], suspect),
    kind('usage by hours and label', 'account', [post('/billing/usage', { ...usage, groupBy: 'label:team' })]),
    kind('forecast', 'account', [post('/billing/forecast', {})], suspect),
    ...PAGES.map((currentPage) =>
      kind(
        `entries, page ${currentPage}`,
        'account',
        [post('/billing/entries', { pager: { ...pager, currentPage } })],
        {
          isSuspect: currentPage === 1,
        },
      ),
    ),
    kind('entries of an instance', 'account', [post('/billing/entries', { pager, subjectId: instanceId })]),
    kind('periods', 'account', [post('/billing/periods', { pager })], suspect),
    kind('focus.csv of all', 'admin', [get(`${BASE_PATH}/admin/billing/focus.csv?month=${month}`)], suspect),
  ];
}

/** A zone in one of its letter cases. */
const spelled = (zone: string, spelling: number): string =>
  [...zone].map((letter, at) => ((spelling >> (at % 30)) & 1 ? letter.toUpperCase() : letter.toLowerCase())).join('');

/** Largest pages, last pages and searches that match nothing. */
function listKinds({ instanceId, busyInstanceId, regionId }: HostileIds): Kind[] {
  const pager = { currentPage: 1, pageSize: MAX_PAGE_SIZE };
  const suspect = { isSuspect: true };
  const labels = Object.fromEntries(Array.from({ length: 32 }, (_, index) => [`key-${index}`, `value-${index}`]));
  const searches = (path: string, more: object = {}) =>
    Array.from({ length: SPELLINGS }, (_, index) => post(path, { pager, ...more, name: `no ${index}` }));
  const paged = jsonRouteNames.flatMap((name) => {
    const route = jsonRouteOf(name);
    if (!route.reads || !('pager' in Object(Object(route.body)['shape']))) return [];
    const values = {
      ...Object(exampleOf(route.body)),
      ...fieldsOf(name, { instanceId: busyInstanceId }),
      ...billed(route),
    };
    return [1, 2].map((currentPage) =>
      kind(
        `${name}, page ${currentPage} of ${MAX_PAGE_SIZE}`,
        route.who === 'account' ? 'account' : 'admin',
        [post(route.path, { ...values, pager: { ...pager, currentPage } })],
        { isSuspect: currentPage === 1 },
      ),
    );
  });
  return [
    ...paged,
    kind('listInstances by new names', 'account', searches('/instance/list'), suspect),
    kind('listInstances by 32 labels', 'account', [post('/instance/list', { pager, labels })], suspect),
    kind('listInstances by a common label', 'account', [
      post('/instance/list', { pager, labels: { 'key-0': 'value-0' } }),
    ]),
    kind('listInstances by price', 'account', [post('/instance/list', { pager, sort: { by: 'price', order: 'asc' } })]),
    kind('listAudit by outcome', 'admin', [post('/admin/audit/list', { pager, outcome: 'not there' })], suspect),
    kind(
      'listAudit by route',
      'admin',
      [post('/admin/audit/list', { pager, route: 'launch', outcome: 'forbidden' })],
      suspect,
    ),
    kind('listAudit without reads', 'admin', [post('/admin/audit/list', { pager, withoutReads: true })], suspect),
    kind('listPrices of a region', 'account', [post('/price/list', { pager, regionId })]),
    kind('instanceLogs, 5,000 lines', 'account', [
      post('/instance/logs', { instanceId, source: 'console', tail: 5_000 }),
    ]),
    kind(
      'instanceLogs of events',
      'account',
      [post('/instance/logs', { instanceId: busyInstanceId, source: 'events', tail: 5_000 })],
      suspect,
    ),
    kind('events from the first', 'account', [get(`${BASE_PATH}/events?after=1`)], suspect),
  ];
}

function unauthenticatedKinds({ instanceId, username }: HostileIds): Kind[] {
  const form = (path: string, body: string): RouteRequest => ({ method: 'POST', path, headers: FORM_TYPE, body });
  const password = 'x'.repeat(128);
  const token = `Bearer ${'x'.repeat(8_000)}`;
  const names = Array.from({ length: SPELLINGS }, (_, index) => `nobody-${index}`);
  const gateway = { target: 'gateway' } as const;
  return [
    kind('GET /login', 'unauthenticated', [get('/login')], { isSuspect: true }),
    kind(
      'GET of unknown paths',
      'unauthenticated',
      names.map((name) => get(`/${name}`)),
    ),
    kind('GET /readyz', 'unauthenticated', [get('/readyz')], { isSuspect: true }),
    kind('GET /api/openapi.json', 'unauthenticated', [get('/api/openapi.json')], { isSuspect: true }),
    kind(
      'a login of the hostile account with wrong passwords',
      'unauthenticated',
      [post('/user/login', { username, password })],
      { isSuspect: true },
    ),
    kind(
      'logins of unknown accounts',
      'unauthenticated',
      names.map((name) => post('/user/login', { username: name, password })),
      {
        isSuspect: true,
      },
    ),
    kind('the login form of 16 KiB', 'unauthenticated', [form('/login', `username=${'%61'.repeat(5_000)}&password=x`)]),
    kind('a list with a forged token', 'unauthenticated', [
      { ...post('/instance/list', {}), headers: { ...JSON_TYPE, authorization: token } },
    ]),
    kind('gateway: an instance without a login', 'unauthenticated', [get(`/notebook/${instanceId}/`)], {
      ...gateway,
      isSuspect: true,
    }),
    kind(
      'gateway: unknown instances',
      'unauthenticated',
      names.map((name) => get(`/notebook/${name}/`)),
      gateway,
    ),
    kind(
      'gateway: forged tokens',
      'unauthenticated',
      names.map((name) => get(`/notebook/${instanceId}/?token=${name}`)),
      gateway,
    ),
    kind(
      'gateway: heads of 30 KB',
      'unauthenticated',
      [get(`/notebook/${instanceId}/`, { 'x-long': 'x'.repeat(30_000) })],
      gateway,
    ),
  ];
}
