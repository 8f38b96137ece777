/**
 * A WebSocket lives for days, and a login does not. What stays open is asked for anew, at once where control says that something ended
 * and all of it from time to time, and cut when its session or link ended, its key was deleted, the port was set to less, or the
 * instance is gone or has another owner.
 */
import { makeRechecker } from '../../async/recheck.ts';
import { stillAdmitted } from './admission.ts';
import type { AdmissionDeps, Evidence } from './admission.ts';
import { Bag, type InBag } from './swap-remove-list.ts';
import type { Forwarding, Log } from '../../control/index.ts';
import type { Place } from './routing.ts';

export interface Live extends InBag {
  readonly place: Place;
  readonly evidence: Evidence;
  readonly cut: () => void;
}

interface RevocationDeps extends AdmissionDeps, Pick<Forwarding, 'onRevoked'> {
  log: Log;
}

export class Revocation {
  readonly #lives = new Bag<Live>();
  readonly #deps: RevocationDeps;
  readonly #timer: NodeJS.Timeout;
  readonly #unfollow: () => void;
  #running = false;

  constructor(deps: RevocationDeps, everyMs: number) {
    this.#deps = deps;
    this.#timer = setInterval(() => void this.#pass(), everyMs);
    this.#timer.unref();
    const recheck = makeRechecker((ids: ReadonlySet<string>) => this.#askAnew(this.#affectedBy(ids)));
    this.#unfollow = deps.onRevoked((ended) => {
      recheck('accountId' in ended ? ended.accountId : ended.instanceId);
    });
  }

  watch(live: Live): void {
    this.#lives.add(live);
  }

  done(live: Live): void {
    this.#lives.delete(live);
  }

  /** What is open still is cut as well. */
  stop(): void {
    clearInterval(this.#timer);
    this.#unfollow();
    for (const live of this.#lives.all()) live.cut();
  }

  async #pass(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    await this.#askAnew(this.#lives.all());
    this.#running = false;
  }

  #affectedBy(ids: ReadonlySet<string>): Live[] {
    const isAffected = ({ place, evidence }: Live): boolean =>
      ids.has(place.instanceId) || ('accountId' in evidence && ids.has(evidence.accountId));
    return this.#lives.all().filter(isAffected);
  }

  /** Never rejects. */
  async #askAnew(lives: readonly Live[]): Promise<void> {
    // Many tabs hang on one session: each is asked for once.
    const verdicts = new Map<string, boolean>();
    let unknown = 0;
    let why: unknown;
    for (const live of lives) {
      if (live.at < 0) continue;
      const key = keyOf(live);
      try {
        const verdict = verdicts.get(key) ?? (await stillAdmitted(this.#deps, live.place, live.evidence));
        verdicts.set(key, verdict);
        if (!verdict && live.at >= 0) live.cut();
      } catch (error) {
        unknown += 1;
        why ??= error;
      }
    }
    if (unknown === 0) return;
    this.#deps.log.warn(
      { err: why, connections: unknown },
      'could not ask anew whether open connections may stay; they stay until the next time',
    );
  }
}

function keyOf({ place: { instanceId, port, surface }, evidence }: Live): string {
  const place = `${instanceId}:${port}:${surface}`;
  switch (evidence.kind) {
    case 'public':
      return place;
    case 'session':
      return `${place}:s:${evidence.secret}`;
    case 'credential':
      return `${place}:c:${evidence.credential.kind === 'token' ? evidence.credential.token : evidence.credential.key}`;
    case 'share':
      return `${place}:l:${evidence.token}`;
    default:
      return evidence satisfies never;
  }
}
