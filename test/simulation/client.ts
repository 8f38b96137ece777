import type { Caller, Control, Idempotency } from '../../src/control/index.ts';
import { Refusal } from '../../src/domain/refusal.ts';
import type { World } from './world.ts';

export interface Request {
  /** For the trace: `stop notebook-…`. */
  text: string;
  caller: Caller;
  key: string | null;
  send(control: Control, idempotency: Idempotency | null): Promise<unknown>;
  /** It is on its way: from here on it may be taken. */
  sent(): void;
  /** `first` is false where the answer is one that was kept for the key, or may be. */
  answered(answer: unknown, first: boolean): void;
  refused(refusal: Refusal): void;
  /** Everything asked must be possible: a refusal is wrong. */
  mustSucceed?: boolean;
}

/** Keys are good for a day; where the date has jumped by half of one, nobody counts on them. */
const KEYS_TRUSTED_MS = 12 * 3_600_000;
const ASK_AGAIN_MS = 3_000;
const PATIENCE = 40;

/** Requests that are under way or will be sent again. */
export const openRequests = new WeakMap<World, Set<Request>>();

export function ask(world: World, request: Request): void {
  const open = openRequests.get(world) ?? new Set();
  openRequests.set(world, open.add(request));
  attempt(world, request, 1);
}

function attempt(world: World, request: Request, nth: number): void {
  const { schedule, model } = world;
  const { text, key, caller } = request;
  const done = (): void => void openRequests.get(world)?.delete(request);
  const again = (): void => {
    const mayAgain = key !== null && world.wall.aheadMs < KEYS_TRUSTED_MS;
    if (request.mustSucceed || (mayAgain && nth < PATIENCE))
      schedule.later(schedule.between(1, ASK_AGAIN_MS), () => attempt(world, request, nth + 1));
    else done();
  };
  const { life } = world;
  const control = life?.running?.control;
  if (!life || !control) {
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
  life.ended.signal.addEventListener('abort', lost, { once: true });
  const hear = (how: () => void): void => {
    if (over || !life.alive) return;
    over = true;
    life.ended.signal.removeEventListener('abort', lost);
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
          if (request.mustSucceed && error.code !== 'in_use') world.fail(`${text} is refused: ${error.message}`);
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
