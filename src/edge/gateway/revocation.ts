/**
 * A WebSocket lives for days, and a login does not. What stays open is asked for anew from time to time, and cut when its session
 * or link ended, its key was deleted, the port was set to less, or the instance is gone or has another owner.
 */
import { stillAdmitted } from './admission.ts';
import type { AdmissionNeeds, Evidence } from './admission.ts';
import type { Log } from '../../control/log.ts';
import type { InstanceTarget } from './routing.ts';

export interface Live {
  target: InstanceTarget;
  evidence: Evidence;
  cut: () => void;
}

export class Revocation {
  readonly #lives = new Set<Live>();
  readonly #needs: AdmissionNeeds & { log: Log };
  readonly #timer: NodeJS.Timeout;
  #running = false;

  constructor(needs: AdmissionNeeds & { log: Log }, everyMs: number) {
    this.#needs = needs;
    this.#timer = setInterval(() => void this.#pass(), everyMs);
    this.#timer.unref();
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
    for (const live of this.#lives) live.cut();
  }

  async #pass(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    // Many tabs hang on one session: each is asked for once.
    const verdicts = new Map<string, boolean>();
    try {
      for (const live of this.#lives) {
        const key = keyOf(live);
        const verdict = verdicts.get(key) ?? (await stillAdmitted(this.#needs, live.target, live.evidence));
        verdicts.set(key, verdict);
        if (!verdict && this.#lives.has(live)) live.cut();
      }
    } catch (error) {
      this.#needs.log.warn(
        { err: error },
        'could not ask anew whether open connections may stay; they stay until the next time',
      );
    } finally {
      this.#running = false;
    }
  }
}

function keyOf({ target, evidence }: Live): string {
  const place = `${target.instanceId}:${target.port}:${target.surface}`;
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
