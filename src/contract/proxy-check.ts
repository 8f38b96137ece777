/** Asks through the proxies in front of the API and the gateway what they change or refuse. */
import { z } from 'zod';

export const CHECK_PATHS = {
  request: '/.berth/check',
  stream: '/.berth/check/stream',
  body: '/.berth/check/body',
  socket: '/.berth/check/socket',
} as const;

/** Above 1 MB, the limit of many proxies. */
export const CHECK_BODY_BYTES = 4 * 1024 * 1024;
/** With those of browsers and proxies below the 32 KiB that Berth takes. */
const CHECK_HEADER_BYTES = 30_000;
/** Address for documents (RFC 5737): no client has it. */
export const CLAIMED_ADDRESS = '192.0.2.66';
export const CHECK_STREAM_MS = 8_000;
/** A stream that is passed on at once ends that much later. */
const UNBUFFERED_MS = 400;
const DEADLINE_MS = 30_000;

const seenRequest = z.object({
  listener: z.enum(['api', 'gateway']),
  scheme: z.string(),
  host: z.string(),
  /** Whether Berth itself serves TLS there. */
  tls: z.boolean(),
  /** Whether headers of a proxy came, and count. */
  forwarded: z.enum(['none', 'ignored', 'counts']),
  /** Kind of the address that counts as the client's: claimed by it, or a trusted proxy's. */
  client: z.enum(['claimed', 'proxy', 'other']),
  /** Further addresses to check, which the API names: of the gateway and of a port's host. */
  others: z.array(z.string()).optional(),
});

export type SeenRequest = z.output<typeof seenRequest>;

export type ProxyFault =
  | { kind: 'unreached' }
  /** Something else than Berth answered. */
  | { kind: 'foreign'; status: number }
  /** The other listener answered. */
  | { kind: 'listener'; seen: SeenRequest['listener'] }
  /** The API did not say which other addresses there are. */
  | { kind: 'othersUnknown' }
  | { kind: 'host'; seen: string }
  | { kind: 'scheme'; seen: string }
  | { kind: 'forwardedFor' }
  | { kind: 'untrusted' }
  | { kind: 'webSocket' }
  | { kind: 'stream' }
  /** 0: the connection ended. */
  | { kind: 'body'; status: number }
  | { kind: 'headers'; status: number }
  | { kind: 'claim' };

export interface ProxyCheckDeps {
  /** Address up to the path of the console, or of the gateway or a port's host. */
  url: string;
  /** Expected there. Default: any. */
  listener?: SeenRequest['listener'];
  fetch: (url: string, init?: RequestInit) => Promise<Response>;
  openSocket: (url: string) => WebSocket;
}

/** Faults between this client and the address; empty: nothing. */
export async function checkProxies({ url, listener, fetch: send, openSocket }: ProxyCheckDeps): Promise<ProxyFault[]> {
  const { protocol, host } = new URL(url);
  const at = (path: string): string => url.replace(/\/+$/, '') + path;
  const ask = (path: string, init: RequestInit = {}): Promise<Response | null> =>
    send(at(path), { ...init, signal: AbortSignal.timeout(DEADLINE_MS) }).catch(() => null);
  const first = await ask(CHECK_PATHS.request);
  if (first === null) return [{ kind: 'unreached' }];
  const seen = await seenIn(first);
  if (seen === null) return [{ kind: 'foreign', status: first.status }];
  const faults = headerFaults(seen, { scheme: protocol.slice(0, -1), host });
  if (listener !== undefined && seen.listener !== listener) faults.push({ kind: 'listener', seen: seen.listener });
  const [opens, isPassedOn, bodyStatus] = await Promise.all([
    socketOpens(openSocket(at(CHECK_PATHS.socket).replace(/^http/, 'ws'))),
    ask(CHECK_PATHS.stream).then((answer) => comesAtOnce(answer)),
    ask(CHECK_PATHS.body, { method: 'POST', body: new Uint8Array(CHECK_BODY_BYTES) }).then(
      (answer) => answer?.status ?? 0,
    ),
  ]);
  if (!opens) faults.push({ kind: 'webSocket' });
  if (!isPassedOn) faults.push({ kind: 'stream' });
  if (bodyStatus !== 200) faults.push({ kind: 'body', status: bodyStatus });
  // Last: a proxy may end the connection, with all that it carries.
  const headers = { 'X-Forwarded-For': CLAIMED_ADDRESS, 'X-Berth-Check': 'x'.repeat(CHECK_HEADER_BYTES) };
  const large = await ask(CHECK_PATHS.request, { headers });
  const seenLarge = await seenIn(large);
  if (seenLarge === null) faults.push({ kind: 'headers', status: large?.status ?? 0 });
  // A browser at the address of a proxy may claim all.
  else if (seenLarge.client === 'claimed' && seen.client === 'other') faults.push({ kind: 'claim' });
  return faults;
}

const seenIn = async (answer: Response | null): Promise<SeenRequest | null> =>
  seenRequest.safeParse(await answer?.json().catch(() => null)).data ?? null;

/** Checks the API at the address, and what else it names. */
export async function checkAllProxies(
  deps: Omit<ProxyCheckDeps, 'listener'>,
): Promise<{ url: string; faults: ProxyFault[] }[]> {
  const others = (await seenIn(await deps.fetch(deps.url + CHECK_PATHS.request).catch(() => null)))?.others;
  const rowOf = async (url: string, listener: SeenRequest['listener']) => ({
    url,
    faults: await checkProxies({ ...deps, url, listener }),
  });
  const [api, ...rows] = await Promise.all([
    rowOf(deps.url, 'api'),
    ...(others ?? []).map((url) => rowOf(url, 'gateway')),
  ]);
  if (others === undefined) api.faults.push({ kind: 'othersUnknown' });
  return [api, ...rows];
}

function headerFaults(seen: SeenRequest, here: { scheme: string; host: string }): ProxyFault[] {
  const faults: ProxyFault[] = [];
  if (seen.host !== here.host) faults.push({ kind: 'host', seen: seen.host });
  if (seen.forwarded === 'ignored') return [...faults, { kind: 'untrusted' }];
  if (seen.scheme !== here.scheme) faults.push({ kind: 'scheme', seen: seen.scheme });
  if (seen.forwarded === 'none' && here.scheme === 'https' && !seen.tls) faults.push({ kind: 'forwardedFor' });
  return faults;
}

function socketOpens(socket: WebSocket): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => socket.close(), DEADLINE_MS);
    const end = (isOpen: boolean): void => {
      clearTimeout(timer);
      resolve(isOpen);
      socket.close();
    };
    socket.addEventListener('open', () => end(true));
    socket.addEventListener('error', () => end(false));
    socket.addEventListener('close', () => end(false));
  });
}

/** Whether the start of a stream came before its end was sent. */
async function comesAtOnce(answer: Response | null): Promise<boolean> {
  const reader = answer?.ok ? answer.body?.getReader() : undefined;
  if (reader === undefined) return false;
  try {
    const { value } = await reader.read();
    if (new TextDecoder().decode(value).includes('last')) return false;
    const more = reader.read().then(
      () => true,
      () => true,
    );
    const isHeld = await Promise.race([
      more.then(() => false),
      new Promise<boolean>((resolve) => setTimeout(() => resolve(true), UNBUFFERED_MS)),
    ]);
    return isHeld;
  } catch {
    return false;
  } finally {
    await reader.cancel().catch(() => {});
  }
}
