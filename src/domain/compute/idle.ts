/**
 * # Idleness
 *
 * A check reads signals in the order of `signalNames`; the first in use is the reason why the
 * instance is active. An instance is idle when every required signal is fresh and none is in use,
 * and is stopped, after a warning, once idle for as long as the policy says.
 *
 * A missing or stale signal gives the verdict `unknown` and restarts the idle time, as do a gap
 * between two checks, also of two servers, and a clock step: unobserved time never counts as idle.
 */

export const signalNames = ['keepAlive', 'kernel', 'terminal', 'ssh', 'http', 'gpu', 'cpu'] as const;
export type SignalName = (typeof signalNames)[number];

export const ruleNames = ['kernel', 'terminal', 'ssh', 'http', 'gpu', 'cpu'] as const;
export type RuleName = (typeof ruleNames)[number];

/** `off`: no policy, so no verdict. */
export const idleStates = ['active', 'idle', 'unknown', 'off'] as const;
export type IdleState = (typeof idleStates)[number];
export const signalVerdicts = ['active', 'idle', 'stale'] as const;

export interface IdlePolicy {
  afterMs: number;
  ignore: RuleName[];
  /** Percent of one CPU, whatever the core count: one busy thread is work. */
  cpuPercent: number;
  gpuPercent: number;
}

export const idlePolicy = (afterMs: number, overrides: Partial<IdlePolicy> = {}): IdlePolicy => ({
  afterMs,
  ignore: [],
  cpuPercent: 10, // a notebook server with an open page idles at 1–2 %
  gpuPercent: 5,
  ...overrides,
});

export interface IdleSignal {
  name: SignalName;
  /** Read at; 0 if the read failed, and `text` says why. */
  atMs: number;
  inUse: boolean;
  /** Last use that the source knows of; 0: none. */
  usedAtMs: number;
  /** Continues "because": "a kernel is busy (notebook train.ipynb)". */
  text: string;
}

export const unreadSignal = (name: SignalName, text: string): IdleSignal => ({
  name,
  atMs: 0,
  inUse: false,
  usedAtMs: 0,
  text,
});

export interface IdleLimits {
  checkEveryMs: number;
  /** Maximum age of a signal, and longest gap between two checks. */
  staleMs: number;
  /** Use this recent counts as current. */
  recentMs: number;
  longestWarningMs: number;
  probeMs: number;
}

export const defaultIdleLimits: IdleLimits = {
  checkEveryMs: 30_000,
  staleMs: 90_000,
  recentMs: 45_000,
  longestWarningMs: 10 * 60_000,
  probeMs: 2_500, // our probes time out after two seconds
};

export interface IdleWatch {
  /** Start of the gapless observation; null: starts with the next check. */
  sinceMs: number | null;
  usedAtMs: number;
  assessedAtMs: number;
  /** Announced by the warning; null: not warned. */
  willStopAtMs: number | null;
}

export const noIdleWatch: IdleWatch = { sinceMs: null, usedAtMs: 0, assessedAtMs: 0, willStopAtMs: null };

/** The time of a use is the difference of two clocks: smaller changes are no other use. */
const JITTER_MS = 1_000;

export interface IdleVerdict {
  state: Exclude<IdleState, 'off'>;
  because: string;
  idleSinceMs: number | null;
  willStopAtMs: number | null;
  /** A stop always follows a warning of an earlier check. */
  action: 'nothing' | 'warn' | 'stop';
  watch: IdleWatch;
}

export const requiredSignals = ({ ignore }: IdlePolicy, hasGpus: boolean): SignalName[] =>
  signalNames.filter((name) => (name === 'keepAlive' || !ignore.includes(name)) && (name !== 'gpu' || hasGpus));

/** A reading from the future predates a clock step: its age is unknown. */
export const isFresh = ({ atMs }: IdleSignal, nowMs: number, { staleMs }: IdleLimits): boolean =>
  Math.abs(nowMs - atMs) <= staleMs;

export const isActive = ({ inUse, usedAtMs }: IdleSignal, nowMs: number, { recentMs }: IdleLimits): boolean =>
  inUse || nowMs - usedAtMs <= recentMs;

export function assessIdleness(
  { policy, required, limits }: { policy: IdlePolicy; required: readonly SignalName[]; limits: IdleLimits },
  previous: IdleWatch,
  signals: readonly IdleSignal[],
  nowMs: number,
): IdleVerdict {
  const needed = required.map(
    (name) => signals.find((signal) => signal.name === name) ?? unreadSignal(name, 'the signal was not read'),
  );
  const fresh = needed.filter((signal) => isFresh(signal, nowMs, limits));
  const active = fresh.find((signal) => isActive(signal, nowMs, limits));
  const allKnown = fresh.length === needed.length;
  const sinceCheckMs = nowMs - previous.assessedAtMs;
  const unbroken = sinceCheckMs >= 0 && sinceCheckMs <= limits.staleMs ? previous.sinceMs : null;
  if (active) {
    // The end of this use is unknown, and so are unread signals: idleness starts at a later check.
    const isEnding = allKnown && !fresh.some((signal) => signal.inUse);
    const watch = isEnding
      ? { sinceMs: unbroken ?? nowMs, usedAtMs: lastUse(fresh, nowMs), assessedAtMs: nowMs, willStopAtMs: null }
      : { ...noIdleWatch, assessedAtMs: nowMs };
    return { state: 'active', because: active.text, idleSinceMs: null, willStopAtMs: null, action: 'nothing', watch };
  }
  if (!allKnown) {
    const missing = needed.filter((signal) => !fresh.includes(signal));
    const because = `no recent reading of ${missing.map(({ name, text }) => `${name} (${text})`).join(', ')}`;
    const watch = { ...noIdleWatch, assessedAtMs: nowMs };
    return { state: 'unknown', because, idleSinceMs: null, willStopAtMs: null, action: 'nothing', watch };
  }
  const sinceMs = unbroken ?? nowMs;
  const latestMs = lastUse(fresh, nowMs);
  const usedAtMs = Math.min(nowMs, latestMs - previous.usedAtMs < JITTER_MS ? previous.usedAtMs : latestMs);
  const idleSinceMs = Math.max(sinceMs, usedAtMs);
  const isSame = idleSinceMs === Math.max(previous.sinceMs ?? 0, previous.usedAtMs);
  const announcedMs = isSame ? previous.willStopAtMs : null;
  const dueAtMs = idleSinceMs + policy.afterMs;
  const willStopAtMs = announcedMs ?? Math.max(dueAtMs, nowMs + limits.checkEveryMs);
  const warns = announcedMs === null && dueAtMs - nowMs <= warningMs(policy, limits);
  const action = warns ? 'warn' : announcedMs !== null && nowMs >= announcedMs ? 'stop' : 'nothing';
  const watch = { sinceMs, usedAtMs, assessedAtMs: nowMs, willStopAtMs: warns ? willStopAtMs : announcedMs };
  return { state: 'idle', because: 'nothing uses the instance', idleSinceMs, willStopAtMs, action, watch };
}

const lastUse = (signals: readonly IdleSignal[], nowMs: number): number =>
  Math.min(nowMs, Math.max(...signals.map(({ usedAtMs }) => usedAtMs)));

/** A third of the idle time, at least two checks: the stop must not wait for a late warning. */
const warningMs = ({ afterMs }: IdlePolicy, { longestWarningMs, checkEveryMs }: IdleLimits): number =>
  Math.max(Math.min(afterMs / 3, longestWarningMs), 2 * checkEveryMs);
