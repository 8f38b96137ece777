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
export const MAX_CHECK_BYTES = 32 * 1024 * 1024;
export const CHECK_STREAM_MS = 8_000;
/** A stream that is passed on at once ends that much later. */
const UNBUFFERED_MS = 400;
const DEADLINE_MS = 30_000;

const seenRequest = z.object({
  scheme: z.string(),
  host: z.string(),
  /** Whether Berth itself serves TLS there. */
  tls: z.boolean(),
  /** Whether headers of a proxy came, and count. */
  forwarded: z.enum(['none', 'ignored', 'counts']),
  /** Further addresses to check, which the API names: of the gateway and of a port's host. */
  others: z.array(z.string()).optional(),
});

export type SeenRequest = z.output<typeof seenRequest>;

export type ProxyFault =
  | { kind: 'unreached' }
  /** Something else than Berth answered. */
  | { kind: 'foreign'; status: number }
  | { kind: 'host'; seen: string }
  | { kind: 'scheme'; seen: string }
  | { kind: 'forwardedFor' }
  | { kind: 'untrusted' }
  | { kind: 'webSocket' }
  | { kind: 'stream' }
  /** 0: the connection ended. */
  | { kind: 'body'; status: number };

export interface ProxyCheckDeps {
  /** Address up to the path of the console, or of the gateway or a port's host. */
  url: string;
  fetch: (url: string, init?: RequestInit) => Promise<Response>;
  openSocket: (url: string) => WebSocket;
}

/** Faults between this client and the address; empty: nothing. */
export async function checkProxies({ url, fetch: send, openSocket }: ProxyCheckDeps): Promise<ProxyFault[]> {
  const { protocol, host } = new URL(url);
  const at = (path: string): string => url.replace(/\/+$/, '') + path;
  const ask = (path: string, init: RequestInit = {}): Promise<Response | null> =>
    send(at(path), { ...init, signal: AbortSignal.timeout(DEADLINE_MS) }).catch(() => null);
  const first = await ask(CHECK_PATHS.request);
  if (first === null) return [{ kind: 'unreached' }];
  const seen = seenRequest.safeParse(await first.json().catch(() => null));
  if (!seen.success) return [{ kind: 'foreign', status: first.status }];
  const faults = headerFaults(seen.data, { scheme: protocol.slice(0, -1), host });
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
  return faults;
}

/** Checks the API at the address, and what else it names. */
export async function checkAllProxies(deps: ProxyCheckDeps): Promise<{ url: string; faults: ProxyFault[] }[]> {
  const answer = await deps.fetch(deps.url + CHECK_PATHS.request).catch(() => null);
  const seen = seenRequest.safeParse(await answer?.json().catch(() => null));
  const urls = [deps.url, ...(seen.data?.others ?? [])];
  return Promise.all(urls.map(async (url) => ({ url, faults: await checkProxies({ ...deps, url }) })));
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
