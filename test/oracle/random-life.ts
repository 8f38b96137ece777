/** Random lives: each number becomes the fact that its digits and the life so far allow. */
import type { Fact } from './calculator.ts';
import { DAY, HOUR, MINUTE } from './zones.ts';

interface Subject {
  id: string;
  kind: 'instance' | 'volume' | 'snapshot';
  state: 'starting' | 'container' | 'running' | 'stopping' | 'restarting' | 'stopped' | 'live' | 'lost' | 'gone';
  sizeGB: number;
  type: string;
  /** The engine was away since Berth last saw its run. */
  wasAway: boolean;
}

const SUBJECTS = 6;
const TYPES = ['small', 'large'];
const STEPS = [1_000, -1_000, 2_001, HOUR, -HOUR, DAY, -DAY, 3_652 * DAY, -3_652 * DAY, -90 * MINUTE, 1_500, -1_500];
const METERS = ['compute', 'disks', 'volume'];

/** Reads digits of a number, the least first. */
function digitsOf(number: number): (base: number) => number {
  let rest = number;
  return (base) => {
    const digit = rest % base;
    rest = Math.floor(rest / base);
    return digit;
  };
}

function pick<T>(all: readonly T[], digit: (base: number) => number): T {
  const one = all[digit(all.length)];
  if (one === undefined) throw new Error('nothing to pick from');
  return one;
}

const prices = [0, 1, 7, 333_333, 1_000_000, 59_999_999, 3_600_000, 123_457];

/** Facts of a life whose clock starts at `origin`. */
export function lifeOf(numbers: readonly number[], origin: number): Fact[] {
  const facts: Fact[] = [];
  const subjects: Subject[] = [];
  let at = 0;
  let steps = 0;
  let isAway = false;
  const add = (fact: Fact extends infer F ? (F extends Fact ? Omit<F, 'at'> : never) : never): void =>
    void facts.push({ at, ...fact });

  const book = (times: number): void => {
    for (let time = 0; time < times; time++) {
      if (!isAway) {
        add({ fact: 'saw' });
        for (const one of subjects) one.wasAway = false;
      }
      add({ fact: 'booked' });
    }
  };

  /** Time passes with a booking each `every` ms, or with none. */
  const pass = (ms: number, every: number): void => {
    const until = at + ms;
    for (; every > 0 && at + every < until; book(1)) at += every;
    at = until;
  };

  const create = (digit: (base: number) => number): void => {
    const kinds = ['instance', 'instance', 'volume', 'snapshot'] as const;
    const kind = pick(kinds, digit);
    const id = `${kind}-${subjects.length}`;
    const sizeGB = 1 + digit(97);
    const type = pick(TYPES, digit);
    subjects.push({ id, kind, state: kind === 'instance' ? 'starting' : 'live', sizeGB, type, wasAway: false });
    const scope = { region: 'region' };
    if (kind === 'instance')
      add({ fact: 'launch', id, hourly: pick(prices, digit), diskGB: sizeGB, scope: { ...scope, instanceType: type } });
    else if (kind === 'volume') add({ fact: 'volume', id, sizeGB, of: 'filesystem', scope });
    else add({ fact: 'snapshot', id, sizeGB, scope });
  };

  const actOnInstance = (one: Subject, digit: (base: number) => number): void => {
    const { id } = one;
    const choice = digit(8);
    const become = (
      fact:
        'container' | 'running' | 'ended' | 'evicted' | 'lost' | 'start' | 'stop' | 'restart' | 'halted' | 'terminate',
      state: Subject['state'],
    ) => {
      add({ fact, id });
      one.state = state;
      one.wasAway &&= state === 'running';
    };
    if (choice === 0) return become('terminate', 'gone');
    if (one.state === 'stopping') return become('halted', 'stopped');
    if (one.state === 'restarting') return become('halted', 'starting');
    if (one.state === 'stopped') return become('start', 'starting');
    if (one.state === 'starting') {
      if (choice === 1) add({ fact: 'repriced', id, hourly: pick(prices, digit) });
      if (choice === 2) return become('stop', 'stopped');
      if (isAway) return undefined;
      return choice < 5 ? become('running', 'running') : become('container', 'container');
    }
    if (choice < 3) {
      if (isAway) return undefined;
      return become(choice === 2 ? 'evicted' : one.wasAway ? 'lost' : 'ended', 'starting');
    }
    if (one.state === 'container')
      return choice < 6 && !isAway ? become('running', 'running') : become('stop', 'stopping');
    return choice < 5 ? become('restart', 'restarting') : become('stop', 'stopping');
  };

  const actOnDisk = (one: Subject, digit: (base: number) => number): void => {
    const { id } = one;
    if (digit(4) === 0) {
      add({ fact: 'deleted', id });
      one.state = 'gone';
    } else if (one.kind === 'snapshot') return;
    else if (one.state === 'lost') {
      add({ fact: 'recovered', id });
      one.state = 'live';
    } else if (digit(2) === 0) {
      add({ fact: 'failed', id });
      one.state = 'lost';
    } else {
      one.sizeGB += 1 + digit(50);
      add({ fact: 'expanded', id, sizeGB: one.sizeGB, of: 'filesystem' });
    }
  };

  const act = (digit: (base: number) => number): void => {
    const live = subjects.filter(({ state }) => state !== 'gone');
    const one = live[digit(SUBJECTS)];
    if (one === undefined) return subjects.length < SUBJECTS ? create(digit) : undefined;
    return one.kind === 'instance' ? actOnInstance(one, digit) : actOnDisk(one, digit);
  };

  const money = (digit: (base: number) => number): void => {
    const amount = 1 + digit(3_000_000);
    const kind = digit(3);
    if (kind === 0) return add({ fact: 'deposit', amount });
    const expiresAt = digit(3) === 0 ? undefined : origin + at + steps + digit(6) * 20 * MINUTE + digit(2);
    const scopes = [
      {},
      { region: 'region' },
      { region: 'other' },
      { instanceType: 'small' },
      { meter: pick(METERS, digit) },
    ];
    const scope = kind === 1 ? pick(scopes, digit) : {};
    return add({ fact: 'give', given: { kind: kind === 1 ? 'voucher' : 'credit', amount, expiresAt, scope } });
  };

  const turn = (digit: (base: number) => number): void => {
    const choice = digit(16);
    if (choice < 4) return pass(1 + digit(300_000), 0);
    if (choice < 6) return pass((1 + digit(100)) * 30_000, (1 + digit(20)) * 20_000);
    if (choice < 10) return act(digit);
    if (choice === 10) return money(digit);
    if (choice === 11) return book(1 + digit(3));
    if (choice === 12) return pass((30 + digit(60)) * MINUTE + digit(3) - 1, 0);
    if (choice === 13) {
      const of = pick(['keptDisk', 'filesystem', 'snapshot'] as const, digit);
      return add({ fact: 'price', of, price: pick(prices, digit) });
    }
    if (choice === 14) {
      // A step in the seconds of an end counts as on the page, which gives no moment for it.
      if (digit(2) === 0 || subjects.some(({ state }) => state === 'stopping' || state === 'restarting')) return;
      const byMs = pick(STEPS, digit);
      steps += byMs;
      return add({ fact: 'step', byMs });
    }
    isAway = !isAway;
    for (const one of subjects) one.wasAway = one.state === 'container' || one.state === 'running';
    at += 5_000;
    add({ fact: isAway ? 'away' : 'answers' });
    return undefined;
  };

  for (const each of ['keptDisk', 'filesystem', 'snapshot'] as const)
    add({ fact: 'price', of: each, price: 90_000_000 });
  add({ fact: 'deposit', amount: 2_000_000 });
  for (const number of numbers) turn(digitsOf(number));
  book(2);
  return facts;
}
