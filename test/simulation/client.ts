import type { Caller, Control, Idempotency } from '../../src/control/index.ts';
import { Refusal } from '../../src/domain/kernel/refusal.ts';
import type { World } from './world.ts';

export interface Request {
  /** Shown in the trace: `stop notebook-…`. */
  text: string;
  caller: Caller;
  key: string | null;
  send(control: Control, idempotency: Idempotency | null): Promise<unknown>;
  /** The request was sent; the server may execute it from now on. */
  sent(): void;
  /** `first` is false for an answer that is, or may be, stored under the key. */
  answered(answer: unknown, first: boolean): void;
  refused(refusal: Refusal): void;
  /** A refusal is a failure. */
  mustSucceed?: boolean;
}

/** Keys expire after a day. After a clock jump of half a day clients stop relying on keys. */
const KEYS_TRUSTED_MS = 12 * 3_600_000;
const ASK_AGAIN_MS = 3_000;
const PATIENCE = 40;

/** Requests in flight or waiting for a retry. */
export const openRequests = new WeakMap<World, Set<Request>>();

export function sendRequest(world: World, request: Request): void {
  const open = openRequests.get(world) ?? new Set();
  openRequests.set(world, open.add(request));
  attempt(world, request, 1);
}

function attempt(world: World, request: Request, nth: number): void {
  const { schedule, model } = world;
  const { text, key, caller } = request;
  const done = (): void => void openRequests.get(world)?.delete(request);
  const again = (): void => {
    const mayAgain = key !== null && world.wallClock.aheadMs < KEYS_TRUSTED_MS;
    if (request.mustSucceed || (mayAgain && nth < PATIENCE))
      schedule.later(schedule.between(1, ASK_AGAIN_MS), () => attempt(world, request, nth + 1));
    else done();
  };
  const { server } = world;
  const control = server?.running?.control;
  if (!server || !control) {
    return again();
  }
  schedule.say(`${caller.username} asks: ${text}${key === null ? '' : ` with key ${key}`}`);
  request.sent();
  let over = false;
  const lost = (): void => {
    if (over) return;
    over = true;
    again();
  };
  server.ended.signal.addEventListener('abort', lost, { once: true });
  const hear = (how: () => void): void => {
    if (over || !server.alive) return;
    over = true;
    server.ended.signal.removeEventListener('abort', lost);
    how();
  };
  request.send(control, key === null ? null : { key, route: text, bodyHash: text }).then(
    (answer) =>
      hear(() => {
        done();
        schedule.say(`${text} is answered: ${JSON.stringify(answer)}`);
        const first = nth === 1 && !model.wasAnswered(key);
        for (const wrong of model.answered(key, answer)) world.fail(wrong);
        request.answered(answer, first);
      }),
    (error: unknown) =>
      hear(() => {
        if (error instanceof Refusal) {
          schedule.say(`${text} is refused: ${error.code} ${error.message}`);
          const passes = error.code === 'in_use' || error.code === 'precondition_failed';
          if (request.mustSucceed && !passes) world.fail(`${text} is refused: ${error.message}`);
          if (request.mustSucceed) return again();
          done();
          request.refused(error);
        } else {
          schedule.say(`${text} fails: ${String(error)}`);
          again();
        }
      }),
  );
}
