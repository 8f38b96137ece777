/**
 * Wake on request. A person's browser gets a page that waits; a program's request is held until
 * the instance runs. What nobody asked for starts nothing: parts of pages, previews, WebSockets.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Forwarding, Visitor, Wake, WakeRequest } from '../../control/index.ts';
import { transientStatuses } from '../../domain/compute/instance-states.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { AccessGrant, Authorized } from './admission.ts';
import { notRunning, opening, stopping, tooMany, type Answer } from './answers.ts';
import type { Head } from './head.ts';
import type { InstanceTarget } from './routing.ts';
import { addressWithout, isNavigation } from './share-token.ts';
import { asksExplicitly, wakeOffered, wakeRefused, wakeTimedOut, wakingUp } from './wake-answers.ts';

export interface WakingDeps {
  forwarding: Pick<Forwarding, 'route'>;
  wake: Wake;
  apiUrl: string;
  /** Longest time that a program's request is held. */
  holdMs: number;
  elapsed: () => number;
}

export interface Sleeper {
  head: Head;
  method: string;
  upgrade: boolean;
  target: InstanceTarget;
  authorized: Authorized;
  visitor: Visitor;
  isGone: () => boolean;
}

const MAX_HELD = 100;
const LOOK_MS = 200;
/** A separate gateway learns of the start later. */
const NEWS_MS = 5_000;
const STARTING: ReadonlySet<string> = new Set(transientStatuses);

export class Waking {
  readonly #deps: WakingDeps;
  readonly #held = new Map<string, number>();
  readonly #stopping = new AbortController();

  constructor(deps: WakingDeps) {
    this.#deps = deps;
  }

  stop(): void {
    this.#stopping.abort();
  }

  /** Answers a request for an instance that does not run; null: it runs by now. */
  async answer(sleeper: Sleeper): Promise<Answer | null> {
    const { apiUrl } = this.#deps;
    const { authorized, target } = sleeper;
    const { route } = authorized;
    const asleep = notRunning(route.status, apiUrl);
    const kind = mayWake(sleeper) ? kindOf(sleeper) : 'none';
    if (kind === 'none') return asleep;
    if (kind === 'unclear') return { ...asleep, help: [...(asleep.help ?? []), asksExplicitly] };
    try {
      if (kind === 'program') return await this.#hold(sleeper);
      const starts = kind === 'person' && !STARTING.has(route.status);
      const offer = await this.#deps.wake({ ...requestOf(sleeper), starts });
      return starts || STARTING.has(route.status) ? wakingUp(offer) : wakeOffered(offer, addressWithout(target));
    } catch (error) {
      if (error instanceof Refusal) return wakeRefused(error, apiUrl);
      throw error;
    }
  }

  /** Starts the instance by the button of its page, and opens what was asked for. */
  async byButton(sleeper: Pick<Sleeper, 'authorized' | 'target' | 'visitor'>): Promise<Answer> {
    try {
      await this.#deps.wake({ ...requestOf(sleeper), starts: true });
      return opening('page', addressWithout(sleeper.target), undefined);
    } catch (error) {
      if (error instanceof Refusal) return wakeRefused(error, this.#deps.apiUrl);
      throw error;
    }
  }

  async #hold(sleeper: Sleeper): Promise<Answer | null> {
    const { instanceId } = sleeper.authorized.route;
    const held = this.#held.get(instanceId) ?? 0;
    if (held >= MAX_HELD) return tooMany();
    this.#held.set(instanceId, held + 1);
    try {
      return await this.#untilRunning(sleeper);
    } finally {
      const left = (this.#held.get(instanceId) ?? 1) - 1;
      if (left === 0) this.#held.delete(instanceId);
      else this.#held.set(instanceId, left);
    }
  }

  async #untilRunning(sleeper: Sleeper): Promise<Answer | null> {
    const { forwarding, wake, elapsed, holdMs, apiUrl } = this.#deps;
    const { signal } = this.#stopping;
    const sinceMs = elapsed();
    let wokenMs: number | null = null;
    for (;;) {
      const route = await forwarding.route(sleeper.authorized.route.instanceId);
      if (route === null || route.running) return null;
      const nowMs = elapsed();
      if (sleeper.isGone() || nowMs - sinceMs >= holdMs) return wakeTimedOut(holdMs);
      if (wokenMs === null && !STARTING.has(route.status)) {
        await wake({ ...requestOf(sleeper), starts: true });
        wokenMs = nowMs;
      } else if (!STARTING.has(route.status) && nowMs - (wokenMs ?? nowMs) > NEWS_MS) {
        return notRunning(route.status, apiUrl);
      }
      await delay(LOOK_MS, undefined, { signal }).catch(() => {});
      if (signal.aborted) return stopping();
    }
  }
}

function mayWake({ authorized: { owner, route } }: Pick<Sleeper, 'authorized'>): boolean {
  return route.wake === 'visitors' || (route.wake === 'owner' && owner);
}

/** `button`: a page of which nobody knows that a person asked for it. `unclear`: such a program. */
function kindOf({ head, method, upgrade, authorized }: Sleeper): 'person' | 'button' | 'program' | 'unclear' | 'none' {
  if (upgrade || head.isPrefetch || method === 'HEAD' || method === 'OPTIONS') return 'none';
  if (isNavigation(head, method)) {
    if ((head.fetchDest ?? 'document') !== 'document') return 'none';
    const isOwn = head.fetchSite === 'none' || head.fetchSite === 'same-origin';
    return authorized.owner && isOwn && head.isByPerson ? 'person' : 'button';
  }
  // Without TLS a part of a page is known by its Referer or Origin alone.
  if (head.fetchMode !== null || head.origin !== null || head.referer !== null) return 'none';
  const hasCredential = head.authorization !== null || head.apiKey !== null || head.shareToken !== null;
  const isClear = hasCredential || head.asksToWake || (method !== 'GET' && head.cookies.length === 0);
  return isClear ? 'program' : 'unclear';
}

function requestOf({ authorized, visitor }: Pick<Sleeper, 'authorized' | 'visitor'>): Omit<WakeRequest, 'starts'> {
  const { route, accessGrant, owner } = authorized;
  const { instanceId, ownerId } = route;
  const known = 'accountId' in accessGrant ? accessGrant.accountId : null;
  return { instanceId, accountId: owner ? ownerId : known, credential: credentialOf(accessGrant, owner), visitor };
}

function credentialOf(accessGrant: AccessGrant, owner: boolean): WakeRequest['credential'] {
  if (accessGrant.kind === 'share') return 'link';
  if (accessGrant.kind === 'credential') return accessGrant.credential.kind === 'apiKey' ? 'apiKey' : 'login';
  return accessGrant.kind === 'session' || owner ? 'login' : 'none';
}
