/** HTTP/2 clients, and a TLS gateway for them. */
import { once } from 'node:events';
import { connect } from 'node:http2';
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { generate } from 'selfsigned';
import type { GatewayDeps } from '../../../src/edge/gateway/gateway-deps.ts';
import type { Certificates } from '../../../src/edge/tls-files.ts';
import type { GatewayLimits } from '../../../src/edge/gateway/gateway-limits.ts';
import { idOf, onCleanup, start } from './harness.ts';
import type { Harness } from './harness.ts';

export const A = idOf('a');
export const ignore = (): void => {};
export const P = `/forward/${A}/80`;

const made = await generate([{ name: 'commonName', value: 'gw.test' }], { keyType: 'ec' });
export const tls: Certificates = { first: { cert: made.cert, key: made.private }, follow: () => {} };

export async function gateway(limits: Partial<GatewayLimits> = {}, more: Partial<GatewayDeps> = {}): Promise<Harness> {
  return start({ tls, limits, ...more });
}

export async function gatewayTo(port: number, limits: Partial<GatewayLimits> = {}): Promise<Harness> {
  const harness = await gateway(limits);
  harness.add(A, { publicPorts: [80], ports: { 80: port } });
  return harness;
}

export async function connected(harness: Harness, settings: object = {}): Promise<ClientHttp2Session> {
  const session = connect(`https://127.0.0.1:${harness.port}`, { rejectUnauthorized: false, settings });
  session.on('error', () => {});
  onCleanup(async () => session.destroy());
  await once(session, 'connect');
  return session;
}

export interface ResponseRecord {
  status: number;
  headers: IncomingHttpHeaders;
  raw: string[];
  body: string;
  trailers: IncomingHttpHeaders;
  information: IncomingHttpHeaders[];
  /** Whether the client considers the response complete. */
  whole: boolean;
  rstCode: number | undefined;
}

export function send(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders | string[],
  ended = true,
): ClientHttp2Stream {
  const stream = session.request(headers, { endStream: ended });
  stream.on('error', () => {});
  return stream;
}

export async function heard(stream: ClientHttp2Stream): Promise<ResponseRecord> {
  const record: ResponseRecord = {
    status: 0,
    headers: {},
    raw: [],
    body: '',
    trailers: {},
    information: [],
    whole: false,
    rstCode: undefined,
  };
  stream.on('headers', (headers) => record.information.push(headers));
  stream.on('response', (headers, _flags, rawHeaders) => {
    record.status = Number(headers[':status']);
    record.headers = headers;
    record.raw = rawHeaders;
  });
  stream.on('trailers', (trailers) => (record.trailers = trailers));
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  stream.on('end', () => (record.whole = true));
  await new Promise((resolve) => stream.once('close', resolve));
  record.body = Buffer.concat(chunks).toString();
  record.rstCode = stream.rstCode;
  return record;
}

export async function ask(
  session: ClientHttp2Session,
  path: string,
  headers: OutgoingHttpHeaders = {},
): Promise<ResponseRecord> {
  return heard(send(session, { ':path': path, ':authority': 'gw.test', ...headers }));
}

export const valuesOf = (list: readonly string[], name: string): (string | undefined)[] =>
  list.flatMap((one, at) => (at % 2 === 0 && one.toLowerCase() === name ? [list[at + 1]] : []));

export const rawSeen = (body: string): string[] => {
  const seen: unknown = JSON.parse(body);
  const list = typeof seen === 'object' && seen !== null && 'rawHeaders' in seen ? seen.rawHeaders : [];
  return Array.isArray(list) ? list.map(String) : [];
};
