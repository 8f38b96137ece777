/** The part of the document that is about WebSockets, as far as it can say them: what opens one, and what refuses it. */
import type { z } from 'zod';
import type { ErrorCode } from './errors.ts';
import { EXEC_PATH, EXEC_PROTOCOL, execQuery, TERMINAL_PATH, TERMINAL_PROTOCOL, terminalQuery } from './exec.ts';
import type { Json } from './openapi.ts';

type JsonObject = { [name: string]: Json };

const CODES: readonly ErrorCode[] = [
  'not_logged_in',
  'forbidden',
  'field_missing',
  'field_type',
  'field_value',
  'not_found',
  'not_now',
  'unsupported',
  'no_capacity',
  'too_many_requests',
  'unavailable',
  'internal',
];

const meanings: Record<string, string> = {
  instanceId: 'A running instance of the caller',
  command: 'The program, looked for in PATH, and then each of its arguments; no shell reads them',
  env: 'NAME=value, beside what the image has. Proxies write queries down: secrets belong on stdin',
  terminal: 'Of `exec`: with a terminal. Of `terminal`: its name; it is made if it is not there',
  columns: 'Of the terminal',
  rows: 'Of the terminal',
  timeoutSeconds: 'After which the command is killed; left out: never',
};

export function socketOperations(deps: {
  problems: (codes: readonly ErrorCode[]) => JsonObject;
  schemaOf: (schema: z.ZodType) => JsonObject;
}): { path: string; operation: JsonObject }[] {
  const operation = (operationId: string, protocol: string, query: z.ZodObject, summary: string): JsonObject => ({
    operationId,
    summary,
    description:
      `A WebSocket of the subprotocol \`${protocol}\` (docs/reference/terminal.md says its messages and close codes). ` +
      'Needs a login or an API key; acts on what the caller owns. A page needs the cookie and the origin of the API. ' +
      'Source of the rule: ours.',
    tags: ['instance'],
    parameters: [
      ...Object.entries(query.shape).map(([name, schema]): JsonObject => {
        const isMany = name === 'command' || name === 'env';
        return {
          name,
          in: 'query',
          required: !schema.safeParse(undefined).success,
          description: meanings[name] ?? '',
          schema: deps.schemaOf(schema),
          ...(isMany ? { style: 'form', explode: true } : {}),
        };
      }),
      {
        name: 'Sec-WebSocket-Protocol',
        in: 'header',
        required: true,
        description: 'The subprotocol',
        schema: { const: protocol },
      },
    ],
    responses: {
      101: { description: 'The command, or the terminal, is there, and its streams are open' },
      ...deps.problems(CODES),
    },
  });
  return [
    {
      path: EXEC_PATH,
      operation: operation(
        'openExec',
        EXEC_PROTOCOL,
        execQuery,
        'A command inside a running instance, with open streams',
      ),
    },
    {
      path: TERMINAL_PATH,
      operation: operation(
        'openTerminal',
        TERMINAL_PROTOCOL,
        terminalQuery,
        'A terminal that can be left and taken up again, and looked at by several at once',
      ),
    },
  ];
}
