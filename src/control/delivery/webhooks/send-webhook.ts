/**
 * Sends one request of a webhook. The name is resolved once, each address is checked, and the
 * connection goes to a checked address, with `Host` and SNI of the name: a name that changes its
 * address meanwhile (DNS rebinding) reaches nothing else.
 */
import { Resolver } from 'node:dns/promises';
import { request as requestHttp, type IncomingMessage } from 'node:http';
import { request as requestHttps } from 'node:https';
import { isIP, isIPv4, type LookupFunction } from 'node:net';
import { raceAbort } from '../../../async/abort.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import { isPublicAddress } from './public-address.ts';
import type { Time } from '../../kernel/ports.ts';

export interface WebhookResult {
  delivered: boolean;
  /** HTTP status; 0 without an answer. */
  status: number;
  /** Beginning of the answer, or what went wrong. */
  answer: string;
  tookMs: number;
  /** Wait that the receiver asks for. */
  retryAfterMs?: number | undefined;
}

export type SendWebhook = (
  message: { url: string; headers: Record<string, string>; body: string },
  stopping: AbortSignal,
) => Promise<WebhookResult>;

export interface SendWebhookOptions {
  time: Pick<Time, 'now' | 'elapsed' | 'deadline' | 'after'>;
  /** Allows private addresses, and http. */
  anyAddress: boolean;
  resolve?: (name: string) => Promise<string[]>;
  timeoutMs?: number;
  bodyMs?: number;
  /** Certificate authorities; default: those of Node. */
  ca?: string;
}

const TIMEOUT_MS = 15_000;
const BODY_MS = 2_000;
const DNS_MS = 3_000;
const MAX_ANSWER_BYTES = 4_096;
const MAX_ANSWER_CHARACTERS = 1_000;

export function makeSendWebhook(options: SendWebhookOptions): SendWebhook {
  const { time, anyAddress, resolve = resolveName, timeoutMs = TIMEOUT_MS } = options;

  const addressesOf = async (host: string): Promise<string[]> => {
    const addresses = isIP(host) === 0 ? await resolve(host) : [host];
    if (addresses.length === 0) throw new Error(`the name ${host} has no address`);
    const refused = anyAddress ? undefined : addresses.find((address) => !isPublicAddress(address));
    if (refused !== undefined) throw new Error(`${host} is at ${refused}, and only public addresses are allowed`);
    return addresses;
  };

  return async ({ url, headers, body }, stopping) => {
    const startedMs = time.elapsed();
    const tookMs = (): number => Math.round(time.elapsed() - startedMs);
    const signal = AbortSignal.any([stopping, time.deadline(timeoutMs)]);
    try {
      const target = new URL(url);
      const addresses = await raceAbort(addressesOf(target.hostname.replace(/^\[|\]$/g, '')), signal);
      const { status, text, retryAfter } = await exchange(target, { addresses, headers, body, signal, options });
      const delivered = status >= 200 && status < 300;
      const isRedirect = status >= 300 && status < 400;
      const answer = isRedirect ? 'redirects are not followed: set the URL to the target' : text;
      return { delivered, status, answer, tookMs: tookMs(), retryAfterMs: msUntil(retryAfter, time.now()) };
    } catch (error) {
      const isLate = signal.aborted && !stopping.aborted;
      const answer = isLate ? `no answer within ${timeoutMs / 1000} s` : printable(errorText(error));
      return { delivered: false, status: 0, answer, tookMs: tookMs() };
    }
  };
}

interface Exchange {
  addresses: readonly string[];
  headers: Record<string, string>;
  body: string;
  signal: AbortSignal;
  options: SendWebhookOptions;
}

function exchange(
  url: URL,
  { addresses, headers, body, signal, options }: Exchange,
): Promise<{ status: number; text: string; retryAfter: string | undefined }> {
  const found = addresses.map((address) => ({ address, family: isIPv4(address) ? 4 : 6 }));
  const lookup: LookupFunction = (_name, { all }, done) => {
    const [first] = found;
    if (all) done(null, found);
    else done(null, first?.address ?? '', first?.family);
  };
  const request = url.protocol === 'https:' ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      { method: 'POST', headers, lookup, signal, agent: false, ...(options.ca ? { ca: options.ca } : {}) },
      (response) => {
        readSome(response, options).then((text) => {
          resolve({ status: response.statusCode ?? 0, text, retryAfter: response.headers['retry-after'] });
          sent.destroy();
        }, reject);
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}

/** `Retry-After` (RFC 9110, 10.2.3): seconds, or a date. Undefined for anything else. */
function msUntil(retryAfter = '', nowMs: number): number | undefined {
  if (/^\d{1,9}$/.test(retryAfter)) return Number(retryAfter) * 1_000;
  const atMs = retryAfter.endsWith(' GMT') ? Date.parse(retryAfter) : NaN;
  return Number.isNaN(atMs) ? undefined : atMs - nowMs;
}

/** The status decides, so a body that breaks, hangs or never ends is cut. */
function readSome(response: IncomingMessage, { time, bodyMs = BODY_MS }: SendWebhookOptions): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  return new Promise((resolve) => {
    const finish = (): void => {
      cancel();
      response.pause();
      resolve(printable(Buffer.concat(chunks).subarray(0, MAX_ANSWER_BYTES).toString('utf8')));
    };
    const cancel = time.after(bodyMs, finish);
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= MAX_ANSWER_BYTES) finish();
    });
    response.once('end', finish);
    response.once('close', finish);
    response.on('error', finish);
  });
}

const CONTROL = /[\p{Cc}\p{Cs}]/gu;
const printable = (text: string): string => text.slice(0, MAX_ANSWER_CHARACTERS).replaceAll(CONTROL, ' ');

/** c-ares, not getaddrinfo: a name that hangs takes none of Node's worker threads. */
async function resolveName(name: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: DNS_MS, tries: 2 });
  const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  return found.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
}
