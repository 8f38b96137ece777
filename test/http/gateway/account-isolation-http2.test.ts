/**
 * The matrix of `account-isolation.test.ts` over HTTP/2: path and `:authority` spellings on a
 * connection that the owner shares.
 */
import type { ClientHttp2Session, OutgoingHttpHeaders } from 'node:http2';
import { describe, expect, test } from 'vitest';
import { atLevel, sampled } from '../../fixtures/level.ts';
import { A, closedTo, DOMAIN, doors, house, NEVER, nowhere, OWN, visitors } from './access-matrix.ts';
import type { Door, Visitor } from './access-matrix.ts';
import { ALICE, jwtOf } from './harness.ts';
import { connected, heard, tls } from './http2-client.ts';
import type { ResponseRecord } from './http2-client.ts';
import { hosts, spellings } from './path-spellings.ts';

const asOwner: OutgoingHttpHeaders = { authorization: `Bearer ${jwtOf(ALICE)}` };

/** TLS cookies have the host prefix. */
function shownBy({ shows }: Visitor): OutgoingHttpHeaders {
  const lines = shows.map((line): [string, string] => {
    const colon = line.indexOf(': ');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 2)];
  });
  const { cookie, ...rest } = Object.fromEntries(lines);
  if (cookie === undefined) return rest;
  return {
    ...rest,
    cookie: cookie.startsWith('berth_share') ? [`__Secure-${cookie}`, `__Host-${cookie}`] : `__Host-${cookie}`,
  };
}

function headersOf(door: Door): Record<string, OutgoingHttpHeaders> {
  const id = door.name === '' ? NEVER : (/notebook-[0-9a-f-]{36}/.exec(door.host + door.path)?.[0] ?? A);
  const path = door.host === DOMAIN ? door.path : `/forward/${id}/${door.port}/`;
  const at = { ':authority': door.host, ':path': door.path };
  const all: Record<string, OutgoingHttpHeaders> = {
    plain: at,
    'another scheme': { ...at, ':scheme': 'http' },
    'an own authority, and this as host': { ...at, ':authority': OWN.hostOfPort, host: door.host },
    'an own host, and this as authority': { ...at, host: OWN.hostOfPort },
    'this as host alone': { ':path': door.path, ':authority': '', host: door.host },
    'an own authority, and the path of this': { ':authority': OWN.hostOfPort, ':path': path },
    'this as authority in capitals, and as host': { ...at, ':authority': door.host.toUpperCase(), host: door.host },
    HEAD: { ...at, ':method': 'HEAD' },
    POST: { ...at, ':method': 'POST' },
    OPTIONS: { ...at, ':method': 'OPTIONS' },
    'another path': { ...at, ':path': OWN.path, 'x-original-url': door.path, 'x-rewrite-url': door.path },
    'another host': {
      ':authority': OWN.hostOfPort,
      ':path': '/',
      'x-forwarded-host': door.host,
      'x-original-host': door.host,
    },
    'another method': { ...at, 'x-http-method-override': 'OPTIONS' },
    'from nearby': { ...at, 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1', forwarded: 'for=127.0.0.1' },
    'with a name': { ...at, 'x-forwarded-user': ALICE, 'remote-user': ALICE, 'x-berth-account': ALICE },
  };
  for (const [name, spell] of Object.entries(spellings))
    all[`path: ${name}`] = { ':authority': DOMAIN, ':path': spell(path, id, door.port) };
  if (door.host !== DOMAIN)
    for (const [name, spell] of Object.entries(hosts))
      all[`host: ${name}`] = { ':authority': spell(door.host), ':path': door.path };
  return all;
}

/** `null`: the client refuses to send the request. */
async function asked(session: ClientHttp2Session, headers: OutgoingHttpHeaders): Promise<ResponseRecord | null> {
  try {
    const stream = session.request(headers, { endStream: true });
    stream.on('error', () => {});
    return await heard(stream);
  } catch {
    return null;
  }
}

const seen = (reported: ResponseRecord | null): string =>
  reported === null
    ? ''
    : JSON.stringify([reported.status, reported.rstCode, reported.body, { ...reported.headers, date: '' }]).replaceAll(
        A,
        NEVER,
      );

describe.each(doors)('$name', (door) => {
  const strangersHere = visitors.filter(({ isAccount }) => !(isAccount && door.forAccounts));

  test.each(strangersHere)('is closed to $name', async (visitor) => {
    const { harness, reached } = await house({ tls });
    const session = await connected(harness);
    const plain = { ':authority': door.host, ':path': door.path };
    const comesIn = async (): Promise<void> => {
      const reported = await asked(session, { ...plain, ...asOwner });
      expect(reported).toMatchObject(
        door.port === 22 ? { status: 502 } : { status: 200, body: `inside a:${door.port}` },
      );
    };
    await comesIn();
    const shows = shownBy(visitor);
    const closed = closedTo(visitor);
    const there = headersOf(door);
    const elsewhere = headersOf(nowhere(door));
    const wrong: string[] = [];
    let tried = 0;
    // Level short: each attempt runs once per address, with alternating visitors.
    const turns = strangersHere.length;
    const triedHere = sampled(Object.entries(there), { oneIn: turns, from: strangersHere.indexOf(visitor) });
    for (const [name, headers] of triedHere) {
      reached.length = 0;
      const reported = await asked(session, { ...headers, ...shows });
      if (reported === null) continue;
      tried += 1;
      if (reached.some((place) => closed.includes(place))) wrong.push(`${name}: reached ${reached.join()}`);
      else if (reported.headers['x-inside'] !== 'a:80') {
        const nobody = await asked(session, { ...elsewhere[name], ...shows });
        if (seen(nobody) !== seen(reported))
          wrong.push(`${name}: tells that it is there: ${seen(reported).slice(0, 300)}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(tried).toBeGreaterThan(atLevel({ short: 100 / turns / 2, long: 100 }));
    // Same connection, before and after.
    await comesIn();
    expect(await asked(session, { ':authority': DOMAIN, ':path': visitor.mayEnter, ...shows })).toMatchObject({
      status: 200,
    });
  });
});
