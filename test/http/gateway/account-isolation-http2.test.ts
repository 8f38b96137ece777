/**
 * The matrix of `account-isolation.test.ts` over HTTP/2: path and `:authority` spellings on a
 * connection that the owner shares.
 */
import type { ClientHttp2Session, OutgoingHttpHeaders } from 'node:http2';
import { describe, expect, test } from 'vitest';
import { atLevel, sampled } from '../../fixtures/level.ts';
import {
  A,
  closedTo,
  DOMAIN,
  protectedTargets,
  startTwoAccountGateway,
  NEVER,
  nowhere,
  OWN,
  visitors,
} from './access-matrix.ts';
import type { ProtectedTarget, Visitor } from './access-matrix.ts';
import { ALICE, jwtOf } from './harness.ts';
import { connected, heard, tls } from './http2-client.ts';
import type { ResponseRecord } from './http2-client.ts';
import { hosts, spellings } from './path-spellings.ts';

const asOwner: OutgoingHttpHeaders = { authorization: `Bearer ${jwtOf(ALICE)}` };

/** TLS cookies have the host prefix. */
function shownBy({ auth }: Visitor): OutgoingHttpHeaders {
  const lines = auth.map((line): [string, string] => {
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

function headersOf(target: ProtectedTarget): Record<string, OutgoingHttpHeaders> {
  const id = target.name === '' ? NEVER : (/notebook-[0-9a-f-]{36}/.exec(target.host + target.path)?.[0] ?? A);
  const path = target.host === DOMAIN ? target.path : `/forward/${id}/${target.port}/`;
  const at = { ':authority': target.host, ':path': target.path };
  const all: Record<string, OutgoingHttpHeaders> = {
    plain: at,
    'another scheme': { ...at, ':scheme': 'http' },
    'an own authority, and this as host': { ...at, ':authority': OWN.hostOfPort, host: target.host },
    'an own host, and this as authority': { ...at, host: OWN.hostOfPort },
    'this as host alone': { ':path': target.path, ':authority': '', host: target.host },
    'an own authority, and the path of this': { ':authority': OWN.hostOfPort, ':path': path },
    'this as authority in capitals, and as host': {
      ...at,
      ':authority': target.host.toUpperCase(),
      host: target.host,
    },
    HEAD: { ...at, ':method': 'HEAD' },
    POST: { ...at, ':method': 'POST' },
    OPTIONS: { ...at, ':method': 'OPTIONS' },
    'another path': { ...at, ':path': OWN.path, 'x-original-url': target.path, 'x-rewrite-url': target.path },
    'another host': {
      ':authority': OWN.hostOfPort,
      ':path': '/',
      'x-forwarded-host': target.host,
      'x-original-host': target.host,
    },
    'another method': { ...at, 'x-http-method-override': 'OPTIONS' },
    'from nearby': { ...at, 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1', forwarded: 'for=127.0.0.1' },
    'with a name': { ...at, 'x-forwarded-user': ALICE, 'remote-user': ALICE, 'x-berth-account': ALICE },
  };
  for (const [name, spell] of Object.entries(spellings))
    all[`path: ${name}`] = { ':authority': DOMAIN, ':path': spell(path, id, target.port) };
  if (target.host !== DOMAIN)
    for (const [name, spell] of Object.entries(hosts))
      all[`host: ${name}`] = { ':authority': spell(target.host), ':path': target.path };
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

describe.each(protectedTargets)('$name', (target) => {
  const visitorsWithoutAccess = visitors.filter(({ isAccount }) => !(isAccount && target.forAccounts));

  test.each(visitorsWithoutAccess)('is closed to $name', async (visitor) => {
    const { harness, reached } = await startTwoAccountGateway({ tls });
    const session = await connected(harness);
    const plain = { ':authority': target.host, ':path': target.path };
    const comesIn = async (): Promise<void> => {
      const reported = await asked(session, { ...plain, ...asOwner });
      expect(reported).toMatchObject(
        target.port === 22 ? { status: 502 } : { status: 200, body: `inside a:${target.port}` },
      );
    };
    await comesIn();
    const expectedAnswer = shownBy(visitor);
    const closed = closedTo(visitor);
    const there = headersOf(target);
    const elsewhere = headersOf(nowhere(target));
    const wrong: string[] = [];
    let tried = 0;
    // Level short: each attempt runs once per address, with alternating visitors.
    const visitorCount = visitorsWithoutAccess.length;
    const triedHere = sampled(Object.entries(there), {
      oneIn: visitorCount,
      from: visitorsWithoutAccess.indexOf(visitor),
    });
    for (const [name, headers] of triedHere) {
      reached.length = 0;
      const reported = await asked(session, { ...headers, ...expectedAnswer });
      if (reported === null) continue;
      tried += 1;
      if (reached.some((label) => closed.includes(label))) wrong.push(`${name}: reached ${reached.join()}`);
      else if (reported.headers['x-inside'] !== 'a:80') {
        const nobody = await asked(session, { ...elsewhere[name], ...expectedAnswer });
        if (seen(nobody) !== seen(reported))
          wrong.push(`${name}: tells that it is there: ${seen(reported).slice(0, 300)}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(tried).toBeGreaterThan(atLevel({ short: 100 / visitorCount / 2, long: 100 }));
    // Same connection, before and after.
    await comesIn();
    expect(await asked(session, { ':authority': DOMAIN, ':path': visitor.mayEnter, ...expectedAnswer })).toMatchObject({
      status: 200,
    });
  });
});
