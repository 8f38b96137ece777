/**
 * A walk over the route table by generated values, on the real server with the simulated engine:
 * two accounts and an administrator, each with the others' ids. No answer is a server error, leaves
 * the schema of its route, or shows an account something of another. `BERTH_SEED` repeats a walk.
 */
import { randomUUID } from 'node:crypto';
import { Agent, request as send } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { plainError, notLoggedInError, problem } from '../../../src/contract/common.ts';
import { exampleOf, type Json } from '../../../src/contract/examples.ts';
import { openapiDocument } from '../../../src/contract/openapi.ts';
import { BASE_PATH, routeNames, routeOf, type RouteName } from '../../../src/contract/routes.ts';
import { errorKinds } from '../../../src/edge/http/status.ts';
import { firstLaunchRequest, running } from '../../fixtures/first-launch.ts';
import { atLevel } from '../../fixtures/level.ts';
import { makeRandom } from '../../fixtures/seeded-random.ts';
import { makeClient } from '../../../src/contract/client.ts';
import { login, startServerProcess, type Client, type ServerProcess } from '../../fixtures/server-process.ts';
import { drawValue, redraw, type Draw, type JsonObject } from './generated-values.ts';
import { exampleRequest, streamTarget, type RouteRequest } from './route-requests.ts';

const REQUESTS = atLevel({ short: 2_000, long: 100_000 });
/** Reached by failures only. */
const DEADLINE_MS = 1_800_000;
/** As many as one commit of the server takes together. */
const WORKERS = 32;
const ENDS = /^(terminate|stop|archive|restart|delete)/;
const ANSWER_MS = 60_000;
const seed = process.env['BERTH_SEED'] ?? randomUUID().slice(0, 8);
const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;

interface Walker {
  name: string;
  key: string;
  /** Part of all its names. */
  mark: string;
  /** Values by field, harvested from its answers. */
  known: Map<string, string[]>;
  /** Ids of what stays for all requests: not drawn for routes that end or delete. */
  lasting: readonly string[];
  isAdmin: boolean;
}

let server: ServerProcess;
let port: number;
const agent = new Agent({ keepAlive: true, maxSockets: WORKERS });
const walkers: Walker[] = [];
/** Account by UUID; `shared` for those that every account sees. */
const owners = new Map<string, string>();
const clients = new Map<string, Client>();

const note = (owner: string, text: string): void => {
  for (const id of text.match(UUID) ?? []) if (!owners.has(id.toLowerCase())) owners.set(id.toLowerCase(), owner);
};

/** The administrator adds regions, types and images meanwhile, which every account sees. */
function noteCatalog(name: RouteName, text: string): void {
  if (name === 'catalog' || name === 'listRegions' || name === 'listPrices') note('shared', text);
  if (name !== 'listImages') return;
  const { images }: { images: { imageId: string; isPublic: string; regions?: { region: string }[] }[] } =
    JSON.parse(text);
  for (const { imageId, isPublic, regions = [] } of images) {
    note('shared', regions.map(({ region }) => region).join());
    if (isPublic === 'true') note('shared', imageId);
  }
}

function harvest({ known }: Walker, value: unknown, field = ''): void {
  if (Array.isArray(value)) for (const item of value) harvest({ known } as Walker, item, field);
  else if (typeof value === 'object' && value !== null)
    for (const [name, member] of Object.entries(value)) harvest({ known } as Walker, member, name);
  else if (typeof value === 'string' && /^id$|Id$/.test(field)) {
    const values = known.get(field) ?? [];
    if (!values.includes(value)) known.set(field, [...values.slice(-50), value]);
  }
}

async function walker(admin: Client, name: string): Promise<Walker> {
  const password = `the password of ${name}`;
  await admin.createUser({ username: name, password, balance: 1_000_000 });
  const { client } = await login(server, name, password);
  const made: Walker = { name, key: '', mark: `zq${name}`, known: new Map(), lasting: [], isAdmin: false };
  const launch = await firstLaunchRequest(client, { name: made.mark, nodePorts: [8000] });
  const shared = [
    await client.catalog({}),
    await client.listRegions({}),
    await client.listImages({ pager: { currentPage: 1, pageSize: 100 } }),
  ];
  for (const answer of shared) note('shared', JSON.stringify(answer));
  const { volume } = await client.createVolume({
    name: made.mark,
    sizeGB: 1,
    region: launch.region,
    volumeType: 'filesystem',
  });
  const { instanceId } = await client.launch(launch);
  await running(client, instanceId);
  const { snapshot } = await client.createSnapshot({ volumeId: volume.id, name: made.mark });
  await client.sharePort({ instanceId, port: 8003, seconds: 3_600 });
  const own = [volume, { instanceId }, snapshot, await client.userInfo({}), launch];
  for (const one of own) harvest(made, one);
  made.known.set('region', [launch.region]);
  made.known.set('volumeId', [volume.id]);
  made.known.set('snapshotId', [snapshot.id]);
  note(name, JSON.stringify(own));
  const { key } = await client.createApiKey({ name: made.mark });
  made.key = key.fullKey;
  // The walk ends logins.
  clients.set(name, makeClient({ baseUrl: `${server.apiUrl}/api`, credential: { kind: 'apiKey', key: key.fullKey } }));
  made.lasting = [volume.id, instanceId, snapshot.id, key.id];
  return made;
}

beforeAll(async () => {
  server = await startServerProcess({
    nodePorts: '32420-32459',
    settings: { BERTH_ENGINE: 'simulated', BERTH_POOL: 'engine=directory,overcommit=100' },
  });
  port = Number(new URL(server.apiUrl).port);
  const { client: admin } = await login(server);
  for (const name of ['alice', 'mallory']) walkers.push(await walker(admin, name));
  // The administrator acts on an account that sends nothing itself.
  const { known } = await walker(admin, 'victim');
  clients.delete('victim');
  known.set('accountId', known.get('userId') ?? []);
  const lasting = ['region', 'imageId', 'instanceTypeId'].flatMap((field) => known.get(field) ?? []);
  const { key } = await admin.createApiKey({ name: 'walk' });
  walkers.push({ name: 'admin', key: key.fullKey, mark: 'zqadmin', known, lasting, isAdmin: true });
});
afterAll(async () => {
  agent.destroy();
  await server?.stop();
});

const bodySchemas = new Map<RouteName, JsonObject>();
function schemaOf(name: RouteName): JsonObject {
  const route = routeOf(name);
  const made =
    bodySchemas.get(name) ??
    JSON.parse(
      JSON.stringify(
        z.toJSONSchema(route.kind === 'json' ? route.body : route.query, { io: 'input', unrepresentable: 'any' }),
      ),
    );
  bodySchemas.set(name, made);
  return made;
}

/** Rounds between two requests: password hashes, disks and files cost more than the rest. */
function roundsBetween(name: RouteName): number {
  const { path, kind } = routeOf(name);
  if (/^\/user\/(login|password|create|register)$/.test(path)) return 20;
  if (/^\/storage\/.*(create|copy|restore)$/.test(path)) return 5;
  return kind === 'json' ? 1 : 5;
}

function drawFor(me: Walker, name: RouteName, random: () => number): Draw {
  const spared = ENDS.test(name) || me.isAdmin ? walkers.flatMap(({ lasting }) => lasting) : [];
  const one = <Item>(items: readonly Item[]): Item => {
    const item = items[Math.floor(random() * items.length)];
    if (item === undefined) throw new Error('nothing to choose from');
    return item;
  };
  const others = walkers.filter(({ name }) => name !== me.name && name !== 'admin');
  return {
    random,
    one,
    mark: me.mark,
    named(field) {
      if (!/^id$|Id$|^region$/.test(field)) return null;
      const from = random() < 0.85 || me.isAdmin ? me : one(others);
      const all = [...from.known.values()].flat().filter((id) => !spared.includes(id));
      const values = (from.known.get(field) ?? all).filter((id) => !spared.includes(id));
      if (values.length === 0 || random() < 0.05) return one([randomUUID(), 'x', '\0', '__proto__', 'n'.repeat(101)]);
      return one(random() < 0.95 ? values : all);
    },
  };
}

function requestOf(name: RouteName, draw: Draw): RouteRequest {
  const route = routeOf(name);
  const schema = schemaOf(name);
  const example = exampleOf(route.kind === 'json' ? route.body : route.query);
  const value: Json = draw.random() < 0.7 ? redraw(example, schema, draw) : drawValue(schema, schema, '', draw);
  const valid = exampleRequest(name);
  if (route.kind === 'json') {
    const headers = { ...valid.headers };
    if (route.idempotent && draw.random() < 0.2) headers['idempotency-key'] = `key-${Math.floor(draw.random() * 50)}`;
    return { ...valid, headers, body: valid.body === null ? null : JSON.stringify(value) };
  }
  const values = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
  const id = encodeURIComponent((draw.named('volumeId') ?? 'x').toWellFormed());
  return { ...valid, path: BASE_PATH + streamTarget(route, { ...values, id }) };
}

interface Answer {
  status: number;
  type: string;
  text: string;
}

/** Of a stream, the first piece is read. */
const ask = ({ method, path, headers, body }: RouteRequest, key: string, isStream: boolean): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const length = body === null ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const sent = send({
      port,
      host: '127.0.0.1',
      method,
      path,
      agent: isStream ? false : agent,
      timeout: ANSWER_MS,
      headers: { ...headers, ...length, 'x-api-key': key },
    });
    sent.once('error', reject);
    sent.once('timeout', () => sent.destroy(new Error(`no answer in ${ANSWER_MS} ms`)));
    sent.once('upgrade', (_response, socket) => {
      socket.destroy();
      resolve({ status: 101, type: '', text: '' });
    });
    sent.once('response', (response) => {
      const [status, type] = [response.statusCode ?? 0, response.headers['content-type'] ?? ''];
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
        if (isStream && status < 400) {
          resolve({ status, type, text });
          response.destroy();
        }
      });
      response.once('end', () => resolve({ status, type, text }));
      response.once('error', reject);
    });
    sent.end(body ?? undefined);
  });

const document = openapiDocument({ version: '0', errorKinds });
const statusesOf = (name: RouteName): Set<string> => {
  const { path, method } = routeOf(name);
  const paths = document['paths'] as Record<string, Record<string, { responses: object }>>;
  return new Set(Object.keys(paths[path]?.[method.toLowerCase()]?.responses ?? {}));
};

/** Why an answer does not conform; null if it does. */
function nonconformance(name: RouteName, { status, type, text }: Answer): string | null {
  const route = routeOf(name);
  if (status >= 500 && status !== 503 && status !== 507) return 'a server error';
  if (!statusesOf(name).has(String(status))) return 'a status that the document does not have';
  if (route.method === 'HEAD' || status === 101) return null;
  const schema =
    status < 400
      ? route.kind === 'json'
        ? route.answer
        : null
      : type.startsWith('application/problem')
        ? problem
        : status === 401 && route.who !== 'anyone'
          ? notLoggedInError
          : plainError;
  if (schema === null) return null;
  const parsed = schema.safeParse(JSON.parse(text));
  return parsed.success ? null : `outside of the schema: ${JSON.stringify(parsed.error.issues).slice(0, 500)}`;
}

/** Bodies of the templates of each walker, which later answers repeat. */
const templates = new Map<string, string>();

/** What an answer shows of the other account, and no request of this one named. */
function leakOf(me: Walker, { path, body }: RouteRequest, text: string): string | null {
  if (me.isAdmin) return null;
  const sent = `${path} ${body ?? ''} ${templates.get(me.name) ?? ''}`.toLowerCase();
  const other = walkers.find(({ name, isAdmin }) => name !== me.name && !isAdmin);
  if (other !== undefined && text.includes(other.mark)) return `the name ${other.mark}`;
  for (const id of text.match(UUID) ?? []) {
    const owner = owners.get(id.toLowerCase());
    if (owner !== undefined && owner !== me.name && owner !== 'shared' && !sent.includes(id.toLowerCase()))
      return `an id of ${owner}: ${id}`;
  }
  return null;
}

test(
  `${REQUESTS} generated requests: no server error, no answer outside of its schema, nothing of another account (seed ${seed})`,
  async () => {
    const random = makeRandom(seed);
    const counts = new Map<RouteName, { asked: number; done: number }>();
    const wrong: string[] = [];
    let left = REQUESTS;
    let turn = -1;
    let limited = 0;
    const work = async (): Promise<void> => {
      while (left > 0 && wrong.length < 10) {
        turn += 1;
        const name = routeNames[turn % routeNames.length] ?? 'userInfo';
        if (Math.floor(turn / routeNames.length) % roundsBetween(name) > 0) continue;
        left -= 1;
        const route = routeOf(name);
        const isForAdmin = route.who !== 'account' && random() < 0.7;
        const me = walkers[isForAdmin ? 2 : Math.floor(random() * 2)];
        if (me === undefined) throw new Error('no walker');
        const asked = requestOf(name, drawFor(me, name, random));
        const shown = `seed ${seed}, ${left} left, ${me.name}, ${name} ${asked.path.slice(0, 300)} ${(asked.body ?? '').slice(0, 600)}`;
        if (name === 'setTemplate') templates.set(me.name, `${templates.get(me.name) ?? ''} ${asked.body ?? ''}`);
        try {
          const answer = await ask(asked, me.key, route.kind !== 'json');
          if (answer.status === 200) noteCatalog(name, answer.text);
          const why = nonconformance(name, answer) ?? leakOf(me, asked, answer.text);
          if (why !== null) wrong.push(`${why}: ${shown}: ${answer.status} ${answer.text.slice(0, 600)}`);
          limited += answer.status === 429 ? 1 : 0;
          const count = counts.get(name) ?? { asked: 0, done: 0 };
          const done = answer.status < 400;
          counts.set(name, { asked: count.asked + 1, done: count.done + (done ? 1 : 0) });
          if (done && route.kind === 'json' && !me.isAdmin) {
            note(me.name, answer.text);
            harvest(me, JSON.parse(answer.text));
          }
        } catch (error) {
          // A deleted volume ends its transfers.
          if (route.kind !== 'bytes' || !String(error).includes('hang up')) wrong.push(`${String(error)}: ${shown}`);
        }
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, work));
    expect(wrong).toEqual([]);
    const untried = routeNames.filter((name) => !counts.has(name));
    expect(untried).toEqual([]);
    const asked = [...counts.values()].reduce((sum, one) => sum + one.asked, 0);
    const done = [...counts.values()].reduce((sum, one) => sum + one.done, 0);
    console.log(
      `seed ${seed}: ${asked} requests of ${counts.size} routes, ${done} succeeded, ${limited} over a rate limit; never: ${[
        ...counts,
      ]
        .filter(([, one]) => one.done === 0)
        .map(([name]) => name)
        .join(' ')}`,
    );
    // A walk of refusals alone would show nothing.
    expect(done / asked).toBeGreaterThan(0.2);
    expect(limited / asked).toBeLessThan(0.1);
  },
  DEADLINE_MS,
);

test('after the walk, each account lists its own resources, and as many as the totals say', async () => {
  const seen = new Map<string, string>();
  for (const [name, client] of clients) {
    const pager = { currentPage: 1, pageSize: 500 };
    const { instances, pager: ofInstances } = await client.listInstances({ pager });
    const { volumeList, pager: ofVolumes } = await client.listVolumes({ pager });
    expect([instances.length, volumeList.length]).toEqual([ofInstances.totalEntries, ofVolumes.totalEntries]);
    const { userId } = await client.userInfo({});
    expect(new Set(instances.map(({ instanceMetadata }) => instanceMetadata.instanceAuth.ownerUserName))).toEqual(
      new Set([userId]),
    );
    for (const id of [
      ...instances.map(({ instanceMetadata }) => instanceMetadata.instanceId),
      ...volumeList.map(({ id }) => id),
    ]) {
      expect([id, seen.get(id)]).toEqual([id, undefined]);
      seen.set(id, name);
    }
  }
});
