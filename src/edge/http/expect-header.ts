/** The Expect header (RFC 9110, 10.1.1): a client waits for 100 before it sends a body. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Unrouted } from './refusal-reply.ts';

const CONTINUE = /^100-continue$/i;

/** Passes requests with an Expect header on: Node would answer 100 or 417 by itself. */
export function takeExpectations(server: Pick<Server, 'on' | 'emit'>): void {
  for (const event of ['checkContinue', 'checkExpectation'])
    server.on(event, (request: IncomingMessage, response: ServerResponse) => server.emit('request', request, response));
}

type Head = Pick<IncomingMessage, 'httpVersion' | 'headers'>;

const expectationOf = ({ httpVersion, headers }: Head): string | undefined =>
  httpVersion === '1.1' ? headers.expect : undefined;

export function refusalOfExpect(request: Head): Unrouted | null {
  const expected = expectationOf(request);
  if (expected === undefined || CONTINUE.test(expected)) return null;
  const message = 'the header "Expect" can only be "100-continue": send that, or leave the header out';
  return { code: 'expectation_failed', message };
}

/** Call once the body is wanted. */
export function sendContinue(request: Head, response: Pick<ServerResponse, 'writeContinue'>): void {
  if (expectationOf(request) !== undefined) response.writeContinue();
}
