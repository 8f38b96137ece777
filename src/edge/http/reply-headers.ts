import type { FastifyReply, FastifyRequest } from 'fastify';

export const setCommonHeaders = (request: FastifyRequest, reply: FastifyReply, contentType: string): FastifyReply =>
  reply.header('content-type', contentType).header('cache-control', 'no-store').header('x-request-id', request.id);

/** Headers of a hijacked answer, with those that hooks have set. */
export function streamHeaders(reply: FastifyReply): Record<string, string> {
  const set = Object.entries(reply.getHeaders()).map(([name, value]): [string, string] => [name, String(value)]);
  return {
    ...Object.fromEntries(set),
    'cache-control': 'no-store',
    'x-request-id': reply.request.id,
  };
}

export function addVary(reply: FastifyReply, name: string): void {
  const set = reply.getHeader('vary');
  reply.header('vary', set === undefined ? name : `${String(set)}, ${name}`);
}
