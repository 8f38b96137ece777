import type { ServerResponse } from 'node:http';
import type { Log } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { refusalBody } from './wire.ts';

const JSON_TYPE = { 'Content-Type': 'application/json' };

export function sendJson(res: ServerResponse, body: unknown): void {
  res.writeHead(200, JSON_TYPE).end(JSON.stringify(body));
}

export function sendRefusal(log: Pick<Log, 'error'>, res: ServerResponse, error: unknown): void {
  if (res.headersSent) return void res.destroy();
  if (!(error instanceof Refusal)) log.error({ err: error }, 'a question of another process could not be answered');
  const { code, message, retryAfterS } =
    error instanceof Refusal ? error : new Refusal('unavailable', 'it could not be answered; try again in a moment');
  res.writeHead(409, JSON_TYPE).end(JSON.stringify({ code, message, retryAfterS }));
}

export function parseRefusal(body: unknown): Refusal {
  const { code, message, retryAfterS } = refusalBody.parse(body);
  return new Refusal(code, message, retryAfterS === undefined ? {} : { retryAfterS });
}
