/** Asks Berth's other process over a link. `node:http` keeps the gateway process small. */
import { request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import type { z } from 'zod';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { linkAgent, type LinkAddress } from './link-address.ts';
import { parseRefusal } from './wire.ts';

const MAX_CONNECTIONS = 8;

export type Ask = <Answer extends z.ZodType>(
  verb: string,
  question: object,
  answer: Answer,
) => Promise<z.output<Answer>>;

export interface LinkClient {
  /** Throws the refusal of the other process, or `unavailable`. */
  ask: Ask;
  open(path: string, signal: AbortSignal): Promise<IncomingMessage>;
  unavailable(cause?: unknown): Refusal;
  stop(): void;
}

interface LinkClientDeps {
  address: LinkAddress;
  headers: Record<string, string>;
  timeoutMs: number;
  /** Message of `unavailable`. */
  away: string;
}

export function makeLinkClient({ address, headers, timeoutMs, away }: LinkClientDeps): LinkClient {
  const agent = linkAgent(address, MAX_CONNECTIONS);
  // A stream must not occupy a pooled connection.
  const streams = linkAgent(address);
  const unavailable = (cause?: unknown): Refusal => new Refusal('unavailable', away, { detail: cause, retryAfterS: 2 });

  function send(method: string, path: string, body: string | null, signal: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const pool = body === null ? streams : agent;
      const length = body === null ? {} : { 'content-length': Buffer.byteLength(body) };
      const req = request({ method, path, agent: pool, headers: { ...headers, ...length }, signal });
      req.on('response', resolve);
      req.on('error', reject);
      req.end(body ?? undefined);
    });
  }

  async function post(path: string, body: object): Promise<{ isAnswer: boolean; body: unknown }> {
    try {
      const reply = await send('POST', path, JSON.stringify(body), AbortSignal.timeout(timeoutMs));
      return { isAnswer: reply.statusCode === 200, body: await json(reply) };
    } catch (cause) {
      throw unavailable(cause);
    }
  }

  return {
    unavailable,
    async ask(verb, question, answer) {
      const { isAnswer, body } = await post(`/${verb}`, question);
      if (isAnswer) return answer.parse(body);
      throw parseRefusal(body);
    },
    async open(path, signal) {
      const timeout = new AbortController();
      const timer = setTimeout(() => timeout.abort(new Error('the API does not answer')), timeoutMs);
      try {
        return await send('GET', path, null, AbortSignal.any([signal, timeout.signal]));
      } finally {
        clearTimeout(timer);
      }
    },
    stop: () => agent.destroy(),
  };
}
